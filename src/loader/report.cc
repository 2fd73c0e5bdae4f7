// Busy and waiting times turned into one sentence.
#include "loader/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace millrace::loader {

namespace {

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

// The consumer hardly waits: it is the limit. Otherwise the workers' own waiting tells who is.
void judge(Report& report, const Loader& loader, double worker_seconds) {
  const Meters& meters = loader.meters();
  const double waited = report.seconds > 0 ? report.waited_seconds / report.seconds : 0;
  const double for_bytes = seconds(meters.wait_bytes_ns) / worker_seconds;
  const double busy = (seconds(meters.decode.busy_ns) + seconds(meters.untar.busy_ns)) / worker_seconds;
  const std::string rate = format_count(static_cast<uint64_t>(report.samples_per_second));
  if (waited < 0.05) {
    report.limit = "consumer";
    report.advice =
        fmt::format("the consumer takes {} samples/s and waits {:.0f} % of the time: loading keeps up", rate,
                    100 * waited);
    return;
  }
  const double fetching =
      seconds(meters.fetch.busy_ns) / std::max(report.seconds * loader.fetch_threads(), 1e-9);
  if (for_bytes > busy || fetching > std::max(busy, 0.8)) {
    report.limit = "fetch";
    report.advice = fmt::format(
        "fetch: {}/s arrive by {} threads that are busy {:.0f} %, and the others wait for bytes {:.0f} % of "
        "the "
        "time: a faster source, more fetch threads or a cache would help",
        format_bytes(static_cast<uint64_t>(report.bytes_per_second)), loader.fetch_threads(), 100 * fetching,
        100 * for_bytes);
    return;
  }
  report.limit = "decode";
  report.advice = fmt::format(
      "decode: {} threads are busy {:.0f} % and give {} samples/s; the consumer waits {:.0f} % of the time: "
      "more cores, or a cache of decoded images, would help",
      loader.threads(), 100 * busy, rate, 100 * waited);
}

}  // namespace

Report make_report(const Loader& loader) {
  const Meters& meters = loader.meters();
  Report report;
  report.seconds = seconds(loader.elapsed_ns());
  report.samples = meters.samples;
  report.batches = meters.deliver.count;
  report.bytes = meters.sample_bytes;
  report.samples_per_second = static_cast<double>(report.samples) / report.seconds;
  report.bytes_per_second = static_cast<double>(report.bytes) / report.seconds;
  report.waited_seconds = seconds(meters.deliver.busy_ns);
  report.memory_peak = loader.memory_peak();
  report.faults = loader.faults().size();
  const auto add = [&](std::string name, const StageMeter& meter, unsigned threads) {
    const double busy = seconds(meter.busy_ns);
    report.stages.push_back({std::move(name), meter.count, meter.bytes, busy, threads,
                             busy / std::max(report.seconds * threads, 1e-9)});
  };
  add("plan", meters.plan, 1);
  add("fetch", meters.fetch, loader.fetch_threads());
  add("untar", meters.untar, loader.threads());
  add("decode", meters.decode, loader.threads());
  judge(report, loader, std::max(report.seconds * loader.threads(), 1e-9));
  std::vector<std::string> notes;
  if (!loader.recipe().cache_note.empty()) notes.push_back(loader.recipe().cache_note);
  if (meters.cache_hits + meters.cache_misses > 0) {
    notes.push_back(fmt::format("cache: {} blocks found, {} fetched", meters.cache_hits.load(),
                                meters.cache_misses.load()));
  }
  if (loader.by_sample())
    notes.emplace_back("the shuffle window is larger than half the memory: samples are read one by one");
  report.note = fmt::format("{}", fmt::join(notes, "; "));
  return report;
}

std::string format_report(const Report& report) {
  std::string text = fmt::format("{} samples in {:.2f} s: {:.0f} samples/s, {}/s; peak memory {}\n",
                                 format_count(report.samples), report.seconds, report.samples_per_second,
                                 format_bytes(static_cast<uint64_t>(report.bytes_per_second)),
                                 format_bytes(report.memory_peak));
  text += fmt::format("{:<8} {:>10} {:>12} {:>8} {:>6}\n", "stage", "count", "bytes", "threads", "busy");
  for (const StageReport& stage : report.stages) {
    text +=
        fmt::format("{:<8} {:>10} {:>12} {:>8} {:>4.0f} %\n", stage.name, stage.count,
                    stage.bytes > 0 ? format_bytes(stage.bytes) : "", stage.threads, 100 * stage.busy_share);
  }
  text += fmt::format("consumer waited {:.2f} s for {} batches\n", report.waited_seconds, report.batches);
  if (report.faults > 0) text += fmt::format("{} samples could not be used\n", report.faults);
  if (!report.note.empty()) text += report.note + "\n";
  return text + "limit: " + report.advice + "\n";
}

std::string format_report_json(const Report& report) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const StageReport& stage : report.stages) {
    stages.push_back({{"name", stage.name},
                      {"count", stage.count},
                      {"bytes", stage.bytes},
                      {"busy_seconds", stage.busy_seconds},
                      {"threads", stage.threads},
                      {"busy_share", stage.busy_share}});
  }
  return nlohmann::ordered_json{{"seconds", report.seconds},
                                {"samples", report.samples},
                                {"batches", report.batches},
                                {"bytes", report.bytes},
                                {"samples_per_second", report.samples_per_second},
                                {"bytes_per_second", report.bytes_per_second},
                                {"waited_seconds", report.waited_seconds},
                                {"stages", stages},
                                {"limit", report.limit},
                                {"advice", report.advice},
                                {"memory_peak", report.memory_peak},
                                {"faults", report.faults},
                                {"note", report.note}}
      .dump();
}

}  // namespace millrace::loader
