// millrace plan show, place and sweep: draws plans, and says where data should live.
#include "base/text.h"
#include "base/units.h"
#include "cli/picture.h"
#include "cli/planning.h"
#include "plan/picture.h"
#include "plan/place.h"
#include "plan/sweep.h"

namespace millrace::cli {

namespace {

struct ShowFlags {
  PlanFlags plan;
  std::string output;
  bool text = false;
};

Status run_show(Shell& shell, const ShowFlags& flags) {
  const plan::Installation installation = MR_TRY(flags.plan.installation());
  const plan::Check check = MR_TRY(plan::check(installation));
  if (flags.output.empty() && !flags.text)
    return make_error(Code::kInvalid, "where should the picture go?")
        .with_hint("-o flow.svg, -o flow.png or --text");
  if (flags.text) fmt::print("{}", plan::flow_text(installation.name, check, 110));
  if (flags.output.empty()) return {};
  MR_TRY(write_picture(flags.output, plan::flow_picture(installation.name, check)));
  if (shell.json) Shell::print({{"picture", flags.output}, {"bottleneck", check.ladder[0].sentence}});
  shell.say(fmt::format("{} is drawn; {}", flags.output, check.ladder[0].sentence));
  return {};
}

Status run_place(Shell& shell, const plan::PlaceRequest& request) {
  const plan::Placement placement = plan::place(request);
  if (shell.json) {
    Json candidates = Json::array();
    for (const plan::Candidate& one : placement.candidates)
      candidates.push_back({{"place", plan::home_name(one.home)},
                            {"room_bytes", one.room > 0 ? Json(one.room) : Json()},
                            {"fits", one.fits},
                            {"reason", one.reason}});
    Shell::print({{"dataset_bytes", request.dataset},
                  {"place", plan::home_name(placement.home)},
                  {"reason", placement.chosen().reason},
                  {"candidates", candidates}});
    return {};
  }
  fmt::print("{}: {}\n\n", plan::home_name(placement.home), placement.chosen().reason);
  std::vector<std::vector<std::string>> rows = {{"place", "fits", "why"}};
  for (const plan::Candidate& one : placement.candidates)
    rows.push_back({std::string(plan::home_name(one.home)), one.fits ? "yes" : "no", one.reason});
  print_table(rows);
  return {};
}

struct SweepFlags {
  PlanFlags plan;
  std::string vary;
  std::string output;
};

void print_points(const std::string& key, const std::vector<plan::SweepPoint>& points) {
  plan::Rational most = 0;
  for (const plan::SweepPoint& point : points) most = std::max(most, point.delivered);
  std::vector<std::vector<std::string>> rows = {
      {key, "into the GPUs", "", "GPUs busy", "cost", "limited by"}};
  for (const plan::SweepPoint& point : points)
    rows.push_back({point.value, plan::format_rate(point.delivered),
                    bar_text(to_double(point.delivered / most), 24),
                    plan::format_percent(point.gpu_utilisation),
                    point.dollars > 0 ? plan::format_dollars(point.dollars) : "", point.limit});
  print_table(rows);
}

Status run_sweep(Shell& shell, const SweepFlags& flags) {
  const TomlDocument document = MR_TRY(flags.plan.document());
  const size_t equals = flags.vary.find('=');
  if (equals == std::string::npos)
    return make_error(Code::kInvalid, "--vary {} has no values", flags.vary)
        .with_hint("--vary store.NAME.drives=4..64:4");
  const std::string key = flags.vary.substr(0, equals);
  const std::vector<std::string> values = MR_TRY(plan::expand_values(flags.vary.substr(equals + 1)));
  const std::vector<plan::SweepPoint> points = MR_TRY(plan::sweep(document, key, values));
  for (const plan::SweepPoint& point : points) {
    if (!shell.json) break;
    Shell::print({{"value", point.value},
                  {"samples_per_second", to_double(point.samples_per_second)},
                  {"delivered_bytes_per_second", to_double(point.delivered)},
                  {"gpu_utilisation", to_double(point.gpu_utilisation)},
                  {"cost_dollars", to_double(point.dollars)},
                  {"limit", point.limit}});
  }
  if (!shell.json) print_points(key, points);
  if (flags.output.empty()) return {};
  const TomlValue* name = document.root.find("name");
  MR_TRY(write_picture(flags.output,
                       plan::sweep_picture(name != nullptr ? name->text : flags.plan.file, key, points)));
  shell.say(flags.output + " is drawn");
  return {};
}

}  // namespace

void add_plan_show(CLI::App& plan, Shell& shell) {
  CLI::App* verb = plan.add_subcommand("show", "Draw the path: capacity, flow and what limits");
  verb->fallthrough();
  auto flags = std::make_shared<ShowFlags>();
  flags->plan.add_to(*verb);
  verb->add_option("-o,--output", flags->output, "The picture: .svg, or .png (needs rsvg-convert)")
      ->type_name("FILE");
  verb->add_flag("--text", flags->text, "Draw it on the terminal");
  verb->footer(
      "Examples:\n"
      "  millrace plan show cluster.toml -o flow.svg\n"
      "  millrace plan show cluster.toml --text --set store.shelf.drives=24");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run_show(shell, *flags); }; });
}

void add_plan_place(CLI::App& plan, Shell& shell) {
  CLI::App* verb =
      plan.add_subcommand("place", "Where a data set should live: GPU, RAM, local drives or a store");
  verb->fallthrough();
  auto request = std::make_shared<plan::PlaceRequest>();
  add_bytes(*verb, "--dataset", request->dataset, "How large it is, as it would be kept")->required();
  verb->add_option("--nodes", request->nodes, "Machines with GPUs")
      ->check(at_least_one())
      ->capture_default_str();
  add_bytes(*verb, "--gpu-memory", request->gpu_memory, "What one GPU can spare (default 8GB)");
  add_bytes(*verb, "--ram", request->ram, "What one machine can spare (default 128GB)");
  add_bytes(*verb, "--local", request->local, "Local drives of one machine (default 32TB); 0: none");
  verb->footer(
      "Examples:\n"
      "  millrace plan place --dataset 150GB --nodes 8\n"
      "  millrace plan place --dataset 100TB --nodes 32 --local 8TB --ram 1TB");
  verb->callback(
      [&shell, request] { shell.action = [&shell, request] { return run_place(shell, *request); }; });
}

void add_plan_sweep(CLI::App& plan, Shell& shell) {
  CLI::App* verb = plan.add_subcommand("sweep", "How throughput and cost change along one value");
  verb->fallthrough();
  auto flags = std::make_shared<SweepFlags>();
  flags->plan.add_to(*verb);
  verb->add_option("--vary", flags->vary, "What to change: KEY=4..64:4, or KEY=100MB/s,200MB/s")
      ->required()
      ->type_name("KEY=VALUES");
  verb->add_option("-o,--output", flags->output, "A plot: .svg, or .png (needs rsvg-convert)")
      ->type_name("FILE");
  verb->footer(
      "Examples:\n"
      "  millrace plan sweep cluster.toml --vary store.shelf.drives=4..64:4 -o drives.svg\n"
      "  millrace plan sweep cluster.toml --vary workload.fraction=0.1,0.3,0.5,1.0");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run_sweep(shell, *flags); }; });
}

}  // namespace millrace::cli
