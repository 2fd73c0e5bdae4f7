// millrace bench store: measures the speed of a store and the CPU time on both sides.

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/copying.h"
#include "transfer/load.h"

namespace millrace::cli {

namespace {

struct BenchFlags {
  std::string address;
  std::string sizes = "4KiB,1MiB";
  std::string duration = "10s";
  transfer::LoadOptions load;
  bool keep = false;
};

Result<double> parse_seconds(std::string_view text) {
  std::string_view unit = text;
  const auto value = take_number<double>(unit);
  const double factor = unit == "ms" ? 0.001 : unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : 0;
  if (!value || factor == 0 || *value <= 0 || *value * factor > 86400)
    return make_error(Code::kInvalid, "\"{}\" is not a duration", text)
        .with_hint("for example 10s, 500ms or 2m");
  return *value * factor;
}

// Only our own server says it; others answer something else, and that is fine.
std::optional<double> find_server_cpu_seconds(const transfer::Location& place) {
  net::Request request;
  request.url = place.store->url("", "");
  request.url.path = "/-/status";
  auto response = place.store->client().send(request);
  if (!response || !response->is_success()) return std::nullopt;
  const auto body = response->read_all(1 << 20);
  if (!body) return std::nullopt;
  const Json status = Json::parse(*body, nullptr, false);
  if (!status.is_object() || !status.contains("cpu_seconds") || !status["cpu_seconds"].is_number())
    return std::nullopt;
  return status["cpu_seconds"].get<double>();
}

Json as_json(const transfer::LoadResult& result, double seconds) {
  return {{"requests", result.microseconds.size()},
          {"errors", result.errors},
          {"bytes", result.bytes},
          {"requests_per_second", static_cast<double>(result.microseconds.size()) / seconds},
          {"bytes_per_second", static_cast<double>(result.bytes) / seconds},
          {"p50_us", result.percentile(0.5)},
          {"p90_us", result.percentile(0.9)},
          {"p99_us", result.percentile(0.99)},
          {"p999_us", result.percentile(0.999)},
          {"max_us", result.percentile(1)}};
}

void print_result(std::string_view name, const transfer::LoadResult& result, double seconds) {
  if (result.microseconds.empty() && result.errors == 0) return;
  const auto per_second = [&](double count) { return static_cast<uint64_t>(count / seconds); };
  const auto ms = [&](double share) { return static_cast<double>(result.percentile(share)) / 1000; };
  fmt::print(
      "{}  {:>10}/s  {:>10} requests/s  p50 {:.2f}  p90 {:.2f}  p99 {:.2f}  p99.9 {:.2f}  max {:.2f} ms{}\n",
      name, format_bytes(per_second(static_cast<double>(result.bytes))),
      format_count(per_second(static_cast<double>(result.microseconds.size()))), ms(0.5), ms(0.9), ms(0.99),
      ms(0.999), ms(1), result.errors > 0 ? fmt::format("  {} errors", result.errors) : "");
}

Status prepare(const transfer::Location& place, const transfer::LoadOptions& load) {
  auto made = transfer::make_bucket(place);
  // It is there already, or somebody else makes buckets here.
  if (!made && made.error().code() != Code::kExists && made.error().code() != Code::kDenied) return made;
  return transfer::prepare_load(place, load);
}

struct Costs {
  double client_seconds = 0;
  std::optional<double> server_seconds;
};

Status report_load(const Shell& shell, const transfer::LoadReport& report, const Costs& costs) {
  const double gigabytes = static_cast<double>(report.get.bytes + report.put.bytes) / 1e9;
  const double per_gb = gigabytes > 0 ? 1 / gigabytes : 0;
  if (shell.json) {
    Json line = {{"seconds", report.seconds},
                 {"get", as_json(report.get, report.seconds)},
                 {"put", as_json(report.put, report.seconds)},
                 {"client_cpu_seconds_per_gb", costs.client_seconds * per_gb}};
    if (costs.server_seconds) line["server_cpu_seconds_per_gb"] = *costs.server_seconds * per_gb;
    Shell::print(line);
  } else {
    print_result("get", report.get, report.seconds);
    print_result("put", report.put, report.seconds);
    fmt::print(
        "cpu  client {:.2f} s/GB{}\n", costs.client_seconds * per_gb,
        costs.server_seconds ? fmt::format(", server {:.2f} s/GB", *costs.server_seconds * per_gb) : "");
  }
  if (report.get.errors + report.put.errors == 0) return {};
  const std::string& said = report.get.errors > 0 ? report.get.first_error : report.put.first_error;
  return make_error(Code::kUnavailable, "{} requests failed, the first: {}",
                    report.get.errors + report.put.errors, said);
}

Status run(Shell& shell, BenchFlags& flags) {
  flags.load.seconds = MR_TRY(parse_seconds(flags.duration));
  flags.load.sizes.clear();
  for (const std::string& word : split_words(flags.sizes))
    flags.load.sizes.push_back(MR_TRY(parse_bytes(word)));
  if (flags.load.sizes.empty()) return make_error(Code::kInvalid, "--sizes names no size");
  transfer::Stores* stores = MR_TRY(shell.stores());
  const transfer::Location place = MR_TRY(stores->find(flags.address));
  if (place.bucket.empty()) return make_error(Code::kInvalid, "{} names no bucket", flags.address);
  MR_TRY(prepare(place, flags.load));
  const auto server_before = find_server_cpu_seconds(place);
  const double client_before = process_cpu_seconds();
  transfer::LoadReport report;
  {
    const auto bar = shell.bar("measuring");
    report = MR_TRY(transfer::run_load(place, flags.load, &shell.progress));
  }
  Costs costs{process_cpu_seconds() - client_before, std::nullopt};
  const auto server_after = find_server_cpu_seconds(place);
  if (server_before && server_after) costs.server_seconds = *server_after - *server_before;
  if (!flags.keep) MR_TRY(transfer::clean_load(place));
  return report_load(shell, report, costs);
}

}  // namespace

void add_bench(CLI::App& app, Shell& shell) {
  CLI::App* bench = app.add_subcommand("bench", "Measure");
  bench->require_subcommand(1);
  bench->fallthrough();
  CLI::App* verb =
      bench->add_subcommand("store", "Requests per second, throughput, latency and cost of a store");
  verb->fallthrough();
  auto flags = std::make_shared<BenchFlags>();
  verb->add_option("address", flags->address, "A bucket, or a prefix in one")->required()->type_name("URL");
  verb->add_option("--sizes", flags->sizes, "Sizes of the objects")
      ->type_name("SIZE,...")
      ->capture_default_str();
  verb->add_option("--put-share", flags->load.put_share, "Share of the requests that write")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb->add_option("--streams", flags->load.streams, "Requests at a time")
      ->check(CLI::Range(1U, 256U))
      ->capture_default_str();
  verb->add_option("--duration", flags->duration, "How long")->type_name("TIME")->capture_default_str();
  verb->add_option("--objects", flags->load.objects, "Objects of each size to read from")
      ->check(at_least_one())
      ->capture_default_str();
  verb->add_option("--seed", flags->load.seed, "Which random order")->capture_default_str();
  verb->add_flag("--keep", flags->keep, "Leave the objects where they are");
  verb->footer(
      "Examples:\n"
      "  millrace bench store mr://bench\n"
      "  millrace bench store http://store:9400/bench --sizes 64MiB --put-share 0 --streams 4 --duration "
      "30s");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
