// Reads plan files with their changes, and prints tables of plans.
#include "cli/planning.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/units.h"
#include "plan/set_value.h"

namespace millrace::cli {

namespace {

// Columns on the terminal: what continues a UTF-8 character takes none.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

void PlanFlags::add_to(CLI::App& verb) {
  verb.add_option("file", file, "The plan, TOML")->required()->type_name("FILE");
  verb.add_option("--set", changes,
                  "Change a value first: store.NAME.drives=24, workload.fraction=0.3, part.nvme.read=5GB/s")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

Result<TomlDocument> PlanFlags::document() const {
  TomlDocument document = MR_TRY(read_toml(file));
  for (const std::string& change : changes) {
    const size_t equals = change.find('=');
    if (equals == std::string::npos)
      return make_error(Code::kInvalid, "--set {} has no value", change)
          .with_hint("--set store.NAME.drives=24");
    MR_TRY(plan::set_value(document, change.substr(0, equals), change.substr(equals + 1)));
  }
  return document;
}

Result<plan::Installation> PlanFlags::installation() const {
  const TomlDocument read = MR_TRY(document());
  return plan::read_installation(read);
}

CLI::Option* add_rate(CLI::App& verb, const std::string& name, uint64_t& rate, const std::string& help) {
  return verb
      .add_option_function<std::string>(
          name,
          [&rate](const std::string& text) {
            auto parsed = parse_rate(text);
            if (!parsed) throw CLI::ValidationError(parsed.error().message(), parsed.error().hint());
            rate = parsed.take();
          },
          help)
      ->type_name("RATE");
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> numbers;
  for (size_t line = 0; line < rows.size(); ++line) {
    widths.resize(std::max(widths.size(), rows[line].size()));
    numbers.resize(widths.size(), true);
    for (size_t column = 0; column < rows[line].size(); ++column) {
      const std::string& cell = rows[line][column];
      widths[column] = std::max(widths[column], width_of(cell));
      const bool is_number = cell.empty() || (cell[0] >= '0' && cell[0] <= '9') || cell[0] == '$';
      if (line > 0 && !is_number) numbers[column] = false;
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - width_of(row[column]), ' ');
      line += (column == 0 ? "" : "  ") + (numbers[column] ? padding + row[column] : row[column] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

Json resource_json(const plan::Check& check, size_t resource) {
  const plan::Resource& one = check.path.resources[resource];
  return {{"what", one.noun()},
          {"part", one.part},
          {"count", one.count},
          {"unit", one.in_samples ? "samples/s" : "bytes/s"},
          {"each", to_double(one.unit)},
          {"used", to_double(check.used(one))},
          {"total", to_double(one.total())},
          {"utilisation", to_double(check.utilisation(one))},
          {"limits", check.limits(resource)},
          {"needed", check.needed(one)}};
}

std::string bar_text(double share, size_t width) {
  const auto full =
      static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(width)));
  std::string text;
  for (size_t cell = 0; cell < width; ++cell) text += cell < full ? "█" : "░";
  return text;
}

}  // namespace millrace::cli
