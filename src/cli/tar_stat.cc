// millrace tar stat: prints counts, sizes and their distribution.
#include <algorithm>
#include <bit>
#include <map>

#include "base/text.h"
#include "base/units.h"
#include "cli/common.h"
#include "shard/scan.h"

namespace millrace::cli {

namespace {

struct Sizes {
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t least = UINT64_MAX;
  uint64_t most = 0;
  std::map<int, uint64_t> by_power;  // how many in [2^p, 2^(p+1)); -1: empty

  void add(uint64_t size) {
    ++count;
    bytes += size;
    least = std::min(least, size);
    most = std::max(most, size);
    ++by_power[size == 0 ? -1 : static_cast<int>(std::bit_width(size)) - 1];
  }
  uint64_t mean() const { return count == 0 ? 0 : bytes / count; }
};

struct Totals {
  uint64_t shards = 0;
  uint64_t stored_bytes = 0;
  uint64_t members = 0;
  uint64_t loose_members = 0;
  Sizes samples;
  std::map<std::string, Sizes> fields;
};

std::string bar(uint64_t count, uint64_t most) {
  constexpr uint64_t kWidth = 40;
  const uint64_t eighths = count * kWidth * 8 / std::max<uint64_t>(most, 1);
  std::string drawn;
  for (uint64_t i = 0; i < eighths / 8; ++i) drawn += "█";
  const char* const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  drawn += parts[eighths % 8];
  return drawn.empty() ? "▏" : drawn;
}

void draw(const Sizes& sizes) {
  uint64_t most = 0;
  for (const auto& [power, count] : sizes.by_power) most = std::max(most, count);
  if (sizes.by_power.empty()) return;
  for (int power = sizes.by_power.begin()->first; power <= sizes.by_power.rbegin()->first; ++power) {
    const auto found = sizes.by_power.find(power);
    const uint64_t count = found == sizes.by_power.end() ? 0 : found->second;
    const std::string from = power < 0 ? "empty" : "from " + format_bytes(uint64_t{1} << power);
    fmt::print("  {:>13} {:>10}  {}\n", from, format_count(count), count == 0 ? "" : bar(count, most));
  }
}

Json as_json(const Sizes& sizes) {
  Json histogram = Json::array();
  for (const auto& [power, count] : sizes.by_power) {
    histogram.push_back({{"from", power < 0 ? 0 : uint64_t{1} << power}, {"count", count}});
  }
  return {{"count", sizes.count}, {"bytes", sizes.bytes}, {"min", sizes.count == 0 ? 0 : sizes.least},
          {"mean", sizes.mean()}, {"max", sizes.most},    {"histogram", histogram}};
}

void print_table(const Totals& totals) {
  fmt::print("{} shard{}, {}; {} samples, {} members", format_count(totals.shards),
             totals.shards == 1 ? "" : "s", format_bytes(totals.stored_bytes),
             format_count(totals.samples.count), format_count(totals.members));
  if (totals.loose_members > 0) fmt::print(" ({} of no sample)", format_count(totals.loose_members));
  fmt::print("\n\n{:<16} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "field", "samples", "bytes", "min", "mean",
             "max");
  for (const auto& [field, sizes] : totals.fields) {
    fmt::print("{:<16} {:>12} {:>12} {:>12} {:>12} {:>12}\n", printable(field), format_count(sizes.count),
               format_bytes(sizes.bytes), format_bytes(sizes.least), format_bytes(sizes.mean()),
               format_bytes(sizes.most));
  }
  fmt::print("\nbytes per sample\n");
  draw(totals.samples);
}

Status run(Shell& shell, const InputFlags& flags) {
  const shard::InputOptions options = MR_TRY(flags.options(shell));
  const std::vector<std::string> names = MR_TRY(flags.names(shell));
  Totals totals;
  shard::ScanCalls calls;
  calls.sample = [&](const tar::Group& group) {
    uint64_t bytes = 0;
    for (const auto& field : group.fields) {
      bytes += field.size;
      totals.fields[std::string(group.field_name(field))].add(field.size);
    }
    totals.samples.add(bytes);
    return Status();
  };
  {
    const auto bar_line = shell.bar("reading");
    for (const std::string& name : names) {
      const shard::ScanReport report = MR_TRY(shard::scan_shard(name, options, calls));
      ++totals.shards;
      totals.members += report.members;
      totals.loose_members += report.loose_members;
    }
  }
  totals.stored_bytes = shell.progress.bytes();
  if (!shell.json) {
    print_table(totals);
    return {};
  }
  Json fields = Json::object();
  for (const auto& [field, sizes] : totals.fields) fields[field] = as_json(sizes);
  Shell::print({{"shards", totals.shards},
                {"bytes", totals.stored_bytes},
                {"members", totals.members},
                {"loose_members", totals.loose_members},
                {"samples", as_json(totals.samples)},
                {"fields", fields}});
  return {};
}

}  // namespace

void add_tar_stat(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("stat", "Counts, sizes and a histogram");
  verb->fallthrough();
  auto flags = std::make_shared<InputFlags>();
  flags->add_to(*verb);
  verb->footer("Examples:\n  millrace tar stat 'train-*.tar'\n  millrace tar stat --json train-000000.tar");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
