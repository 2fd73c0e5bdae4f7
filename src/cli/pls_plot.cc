// millrace pls plot: accuracy, label distance or share at home against the epoch, several runs in one
// picture.
#include <charconv>
#include <map>

#include "base/file.h"
#include "cli/picture.h"
#include "cli/pls.h"
#include "exchange/plot.h"

namespace millrace::cli {

namespace {

struct PlotFlags {
  std::vector<std::string> inputs;
  std::string output;
  std::string figure = "accuracy";
  std::string title;
};

using Points = std::map<double, std::pair<double, int>>;  // epoch -> sum and count over seeds

Status add_row(std::map<std::string, Points>& curves, const Json& row, const std::string& file,
               const std::string& figure) {
  // A run with its curve inside, or one epoch of a run that is named after its file.
  const bool is_run = row.contains("curve") && row["curve"].is_array();
  const std::string name =
      is_run && row.contains("name") && row["name"].is_string() ? row["name"].get<std::string>() : file;
  const Json rows = is_run ? row["curve"] : Json::array({row});
  for (const Json& one : rows) {
    if (!one.is_object() || !one.contains("epoch") || !one["epoch"].is_number()) continue;
    if (!one.contains(figure) || !one[figure].is_number()) {
      return make_error(Code::kNotFound, "{}: an epoch has no {}", file, figure)
          .with_hint(
              "--figure accuracy, averaged, label_distance or home_share, as far as the file has them");
    }
    auto& [sum, count] = curves[name][one["epoch"].get<double>()];
    sum += one[figure].get<double>();
    ++count;
  }
  return {};
}

Status run(Shell& shell, const PlotFlags& flags) {
  std::map<std::string, Points> curves;
  constexpr uint64_t kMost = 1 << 30;
  for (const std::string& input : flags.inputs) {
    const std::string text = MR_TRY(read_file(input, kMost));
    size_t at = 0;
    for (size_t line = 1; at < text.size(); ++line) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view row = std::string_view(text).substr(at, end - at);
      at = end + 1;
      if (row.empty()) continue;
      const Json parsed = Json::parse(row, nullptr, false);
      if (parsed.is_discarded() || !parsed.is_object())
        return make_error(Code::kInvalid, "{}: line {} is no JSON object", input, line);
      const std::string stem = input.substr(input.rfind('/') + 1);
      MR_TRY(add_row(curves, parsed, stem.substr(0, stem.rfind('.')), flags.figure));
    }
  }
  std::vector<exchange::Curve> drawn;
  for (const auto& [name, points] : curves) {
    exchange::Curve& curve = drawn.emplace_back();
    curve.name = name;
    for (const auto& [epoch, sum] : points) curve.points.emplace_back(epoch, sum.first / sum.second);
  }
  if (drawn.empty())
    return make_error(Code::kNotFound, "there is nothing to draw in {}", flags.inputs.front());
  const std::string title = flags.title.empty() ? flags.figure + " by epoch" : flags.title;
  MR_TRY(write_picture(flags.output, exchange::draw_curves(drawn, {title, "epoch", flags.figure})));
  if (shell.json) {
    Shell::print({{"path", flags.output}, {"curves", drawn.size()}});
  } else {
    shell.say(fmt::format("drew {} curves to {}", drawn.size(), flags.output));
  }
  return {};
}

}  // namespace

void add_pls_plot(CLI::App& pls, Shell& shell) {
  CLI::App* verb =
      pls.add_subcommand("plot", "Draw what runs or simulations did, epoch by epoch, as SVG or PNG");
  verb->fallthrough();
  auto flags = std::make_shared<PlotFlags>();
  verb->add_option("rows", flags->inputs,
                   "JSON lines: of millrace --json pls simulate or exchange, or of examples/pls/run --out")
      ->required()
      ->type_name("FILE");
  verb->add_option("-o,--output", flags->output, "The picture")->required()->type_name("FILE.svg|png");
  verb->add_option("--figure", flags->figure, "What is drawn: accuracy, averaged, label_distance, home_share")
      ->type_name("accuracy|averaged|label_distance|home_share")
      ->capture_default_str();
  verb->add_option("--title", flags->title, "What stands above it");
  verb->footer(
      "Examples:\n"
      "  millrace --json pls simulate --q 0.1 > q0.1.jsonl; millrace --json pls simulate --q 0.3 > "
      "q0.3.jsonl\n"
      "  millrace pls plot q0.1.jsonl q0.3.jsonl --figure label_distance -o mixing.svg");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
