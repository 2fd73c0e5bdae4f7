// millrace plan check and parts: what limits an installation, and what parts the catalogue has.
#include "base/units.h"
#include "cli/planning.h"

namespace millrace::cli {

namespace {

using plan::Check;
using plan::Resource;

Json check_json(const plan::Installation& installation, const Check& check) {
  Json ladder = Json::array();
  for (const plan::Rung& rung : check.ladder) {
    Json limits = Json::array();
    for (const size_t at : rung.resources) limits.push_back(check.path.resources[at].noun());
    ladder.push_back({{"limits", limits},
                      {"samples_per_second", to_double(rung.samples_per_second)},
                      {"gpu_utilisation",
                       to_double(std::min(plan::Rational(1), rung.samples_per_second / check.demand))}});
  }
  Json resources = Json::array();
  for (size_t at = 0; at < check.path.resources.size(); ++at) resources.push_back(resource_json(check, at));
  const double delivered = to_double(check.delivered), dollars = to_double(check.cost.dollars);
  return {{"name", installation.name},
          {"samples_per_second", to_double(check.samples_per_second)},
          {"read_bytes_per_second", to_double(check.read)},
          {"delivered_bytes_per_second", delivered},
          {"gpus", installation.gpu_count()},
          {"gpu_utilisation", to_double(check.gpu_utilisation())},
          {"epoch_seconds", to_double(check.epoch_seconds)},
          {"training_seconds",
           to_double(check.epoch_seconds) * static_cast<double>(installation.workload.epochs)},
          {"bottleneck", check.ladder[0].sentence},
          {"ladder", ladder},
          {"resources", resources},
          {"cost_dollars", dollars},
          {"cost_per_delivered_gb_per_second", dollars / (delivered / 1e9)},
          {"unpriced", check.cost.unpriced},
          {"room_needed_bytes", to_double(check.room.needed)},
          {"room_bytes", check.room.is_known() ? Json(to_double(check.room.available)) : Json()},
          {"fits", check.room.is_known() ? Json(check.room.fits()) : Json()}};
}

void print_resources(const Check& check) {
  std::vector<std::vector<std::string>> rows = {{"", "parts", "", "used", "of", "", "for 100 %"}};
  for (size_t at = 0; at < check.path.resources.size(); ++at) {
    const Resource& one = check.path.resources[at];
    rows.push_back({(check.limits(at) ? "> " : "  ") + one.noun(), format_count(one.count) + " x " + one.part,
                    bar_text(to_double(check.utilisation(one)), 20),
                    plan::format_percent(check.utilisation(one)), plan::format_rate(one, one.total()),
                    one.reserved > 0 ? plan::format_rate(one.reserved) + " reserved" : "",
                    format_count(check.needed(one))});
  }
  print_table(rows);
}

void print_check(const plan::Installation& installation, const Check& check) {
  fmt::print("{}\n\n", installation.name);
  print_resources(check);
  fmt::print("\n{}\n", check.ladder[0].sentence);
  for (size_t rung = 1; rung < check.ladder.size(); ++rung) fmt::print("  {}\n", check.ladder[rung].sentence);
  fmt::print("\nthroughput  {} samples/s; {} read, {} into {} GPUs, which are {} busy\n",
             format_count(static_cast<uint64_t>(to_double(check.samples_per_second))),
             plan::format_rate(check.read), plan::format_rate(check.delivered),
             format_count(installation.gpu_count()), plan::format_percent(check.gpu_utilisation()));
  fmt::print("epoch       {}", plan::format_seconds(check.epoch_seconds));
  if (installation.workload.epochs > 1)
    fmt::print("; {} epochs {}", installation.workload.epochs,
               plan::format_seconds(check.epoch_seconds * installation.workload.epochs));
  fmt::print("\nroom        {} needed", format_bytes(plan::ceiling(check.room.needed)));
  if (!check.room.is_known()) {
    fmt::print(", what the drives hold is not known\n");
  } else {
    fmt::print(", {} there{}\n", format_bytes(plan::ceiling(check.room.available)),
               check.room.fits() ? "" : ": DOES NOT FIT");
  }
  fmt::print("cost        ");
  if (check.cost.dollars > 0)
    fmt::print("{}, {} for each GB/s delivered", plan::format_dollars(check.cost.dollars),
               plan::format_dollars(check.cost.dollars / (check.delivered / 1'000'000'000)));
  std::string unpriced;
  for (const std::string& name : check.cost.unpriced) unpriced += (unpriced.empty() ? "" : ", ") + name;
  if (!unpriced.empty())
    fmt::print("{}without a price: {}", check.cost.dollars > 0 ? "; " : "not known; ", unpriced);
  fmt::print("\n");
}

Status run_check(Shell& shell, const PlanFlags& flags) {
  const plan::Installation installation = MR_TRY(flags.installation());
  const Check check = MR_TRY(plan::check(installation));
  if (shell.json) {
    Shell::print(check_json(installation, check));
  } else {
    print_check(installation, check);
  }
  return {};
}

struct PartsFlags {
  std::string file;
  uint64_t move = 1'000'000'000'000'000;
};

std::string figures_of(const plan::Part& part) {
  const auto rate = [](uint64_t bytes) { return plan::format_rate(plan::Rational(bytes)); };
  switch (part.kind) {
    case plan::Kind::kDrive:
      return rate(part.rate) + (part.random > 0 ? ", random " + rate(part.random) : "") +
             (part.capacity > 0 ? ", " + format_bytes(part.capacity) : "");
    case plan::Kind::kCore:
      return rate(part.in) + " in, " + rate(part.out) + " out";
    case plan::Kind::kGpu:
      if (part.rate == 0) return fmt::format("{:.1f} samples/s", to_double(part.samples_per_second));
      [[fallthrough]];
    case plan::Kind::kLink:
      return rate(part.rate);
  }
  return "";
}

Json part_json(const plan::Part& part, uint64_t move) {
  Json line = {{"name", part.name}, {"kind", plan::kind_name(part.kind)}};
  const auto put = [&line](const char* key, uint64_t value) {
    if (value > 0) line[key] = value;
  };
  put("bytes_per_second", part.rate);
  put("random_bytes_per_second", part.random);
  put("write_bytes_per_second", part.write);
  put("capacity_bytes", part.capacity);
  put("in_bytes_per_second", part.in);
  put("out_bytes_per_second", part.out);
  put("sample_bytes", part.sample);
  if (part.samples_per_second > 0) line["samples_per_second"] = to_double(part.samples_per_second);
  if (part.price > 0) line["price_dollars"] = to_double(part.price);
  if (part.rate > 0) line["move_seconds"] = static_cast<double>(move) / static_cast<double>(part.rate);
  line["source"] = part.source;
  line["date"] = part.date;
  return line;
}

Status run_parts(Shell& shell, const PartsFlags& flags) {
  plan::Catalogue catalogue = MR_TRY(plan::Catalogue::standard());
  if (!flags.file.empty()) {
    const TomlDocument document = MR_TRY(read_toml(flags.file));
    MR_TRY(catalogue.add(document));
  }
  std::vector<std::vector<std::string>> rows = {
      {"part", "kind", "figures", "price", format_bytes(flags.move) + " takes", "of", "source"}};
  for (const plan::Part& part : catalogue.parts()) {
    if (shell.json) {
      Shell::print(part_json(part, flags.move));
      continue;
    }
    rows.push_back({part.name, std::string(plan::kind_name(part.kind)), figures_of(part),
                    part.price > 0 ? plan::format_dollars(part.price) : "",
                    part.rate > 0 ? plan::format_duration(plan::Rational(flags.move, part.rate)) : "",
                    part.date, part.source});
  }
  if (!shell.json) print_table(rows);
  return {};
}

}  // namespace

void add_plan_check(CLI::App& plan, Shell& shell) {
  CLI::App* verb =
      plan.add_subcommand("check", "How fast an installation is, what limits it, what would limit it next");
  verb->fallthrough();
  auto flags = std::make_shared<PlanFlags>();
  flags->add_to(*verb);
  verb->footer(
      "Examples:\n"
      "  millrace plan check cluster.toml\n"
      "  millrace plan check cluster.toml --set store.shelf.drives=24 --set part.rotational.read=180MB/s\n"
      "  millrace --json plan check cluster.toml | jq .bottleneck");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run_check(shell, *flags); }; });
}

void add_plan_parts(CLI::App& plan, Shell& shell) {
  CLI::App* verb =
      plan.add_subcommand("parts", "The catalogue: parts, their figures and where those come from");
  verb->fallthrough();
  auto flags = std::make_shared<PartsFlags>();
  verb->add_option("file", flags->file, "A plan whose own parts are shown, too")->type_name("FILE");
  add_bytes(*verb, "--move", flags->move, "How long so much data takes (default 1PB)");
  verb->footer(
      "Examples:\n"
      "  millrace plan parts\n"
      "  millrace plan parts cluster.toml --move 100TB");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run_parts(shell, *flags); }; });
}

void add_plan(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand(
      "plan", "Know the bottleneck before buying: throughput, limits, sizes, cost, pictures");
  verb->require_subcommand(1);
  verb->fallthrough();
  add_plan_check(*verb, shell);
  add_plan_size(*verb, shell);
  add_plan_place(*verb, shell);
  add_plan_sweep(*verb, shell);
  add_plan_show(*verb, shell);
  add_plan_simulate(*verb, shell);
  add_plan_parts(*verb, shell);
}

}  // namespace millrace::cli
