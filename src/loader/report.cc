// Turns busy and waiting times into a report and one sentence about the limit.
#include "loader/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace millrace::loader {

namespace {

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

double share(uint64_t ns, double of_seconds) {
  return seconds(ns) / std::max(of_seconds, 1e-9);
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

bool is_cached(const Meters& meters) {
  return meters.cache_hits > 9 * meters.cache_misses;
}

std::string fetch_advice(const Report& report, const Loader& loader) {
  const bool has_cache = is_cached(loader.meters());
  return fmt::format(
      "fetch: {}/s arrive by {} threads that are busy {}, and the others wait for bytes {} of the time: {}",
      format_bytes(static_cast<uint64_t>(report.bytes_per_second)), loader.fetch_threads(),
      percent(share(loader.meters().fetch.busy_ns, report.seconds * loader.fetch_threads())),
      percent(report.waited_bytes_share),
      has_cache ? "a faster drive for the cache would help"
                : "a faster source, more fetch threads or a cache would help");
}

// One thread decides, and of streamed shards also reads and unpacks.
std::string plan_advice(const Report& report, const Loader& loader) {
  const std::string busy = percent(share(loader.meters().plan.busy_ns, report.seconds));
  if (loader.catalogue().is_indexed())
    return fmt::format(
        "plan: the thread that decides the order is busy {}: larger samples or batches would help", busy);
  return fmt::format(
      "plan: one thread reads, unpacks and shuffles streamed shards and is busy {}: plain shards with an "
      "index "
      "are read by several",
      busy);
}

// The consumer hardly waits: it is the limit. Otherwise the workers' own waiting tells who is.
void judge(Report& report, const Loader& loader) {
  const Meters& meters = loader.meters();
  const double waited = report.seconds > 0 ? report.waited_seconds / report.seconds : 0;
  const double workers = report.seconds * loader.threads();
  const double busy = share(meters.decode.busy_ns + meters.untar.busy_ns, workers);
  const double planning = share(meters.plan.busy_ns, report.seconds);
  const double fetching = share(meters.fetch.busy_ns, report.seconds * loader.fetch_threads());
  const double python = share(meters.python.busy_ns, report.seconds);
  const std::string rate = format_count(static_cast<uint64_t>(report.samples_per_second));
  if (python > 0.5) {
    report.limit = "python";
    report.advice = fmt::format(
        "python: functions of Python take {} of the time, one at a time: {} samples/s; fewer or cheaper ones "
        "would help",
        percent(python), rate);
  } else if (waited < 0.05) {
    report.limit = "consumer";
    report.advice = fmt::format("the consumer takes {} samples/s and waits {} of the time: loading keeps up",
                                rate, percent(waited));
  } else if (planning > std::max({busy, fetching, 0.5})) {
    report.limit = "plan";
    report.advice = plan_advice(report, loader);
  } else if (report.waited_bytes_share > busy || fetching > std::max(busy, 0.8)) {
    report.limit = "fetch";
    report.advice = fetch_advice(report, loader);
  } else {
    report.limit = "decode";
    report.advice = fmt::format(
        "decode: {} threads are busy {} and give {} samples/s; the consumer waits {} of the time: more "
        "cores, or a cache of decoded images, would help",
        loader.threads(), percent(busy), rate, percent(waited));
  }
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
    report.stages.push_back({std::move(name), meter.count, static_cast<double>(meter.count) / report.seconds,
                             meter.bytes, busy, threads, share(meter.busy_ns, report.seconds * threads)});
  };
  add("plan", meters.plan, 1);
  add("fetch", meters.fetch, loader.fetch_threads());
  add("untar", meters.untar, loader.threads());
  add("decode", meters.decode, loader.threads());
  if (meters.python.count > 0) add("python", meters.python, 1);
  report.waited_bytes_share = share(meters.wait_bytes_ns, report.seconds * loader.threads());
  report.waited_room_share = share(meters.wait_room_ns, report.seconds * loader.threads());
  report.ready_batches =
      static_cast<double>(meters.ready_batches) / static_cast<double>(std::max<uint64_t>(report.batches, 1));
  judge(report, loader);
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
  text += fmt::format("{:<8} {:>10} {:>10} {:>12} {:>8} {:>6}\n", "stage", "count", "per second", "bytes",
                      "threads", "busy");
  for (const StageReport& stage : report.stages) {
    text += fmt::format("{:<8} {:>10} {:>10.0f} {:>12} {:>8} {:>4.0f} %\n", stage.name, stage.count,
                        stage.per_second, stage.bytes > 0 ? format_bytes(stage.bytes) : "", stage.threads,
                        100 * stage.busy_share);
  }
  text += fmt::format("untar and decode waited {} for bytes, {} for room\n",
                      percent(report.waited_bytes_share), percent(report.waited_room_share));
  text += fmt::format("consumer waited {:.2f} s for {} batches; {:.1f} of {} lay ready when it took one\n",
                      report.waited_seconds, report.batches, report.ready_batches, Loader::kBatchesUnderWay);
  if (report.faults > 0) text += fmt::format("{} samples could not be used\n", report.faults);
  if (!report.note.empty()) text += report.note + "\n";
  return text + "limit: " + report.advice + "\n";
}

std::string format_report_json(const Report& report) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const StageReport& stage : report.stages) {
    stages.push_back({{"name", stage.name},
                      {"count", stage.count},
                      {"per_second", stage.per_second},
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
                                {"waited_bytes_share", report.waited_bytes_share},
                                {"waited_room_share", report.waited_room_share},
                                {"ready_batches", report.ready_batches},
                                {"stages", stages},
                                {"limit", report.limit},
                                {"advice", report.advice},
                                {"memory_peak", report.memory_peak},
                                {"faults", report.faults},
                                {"note", report.note}}
      .dump();
}

}  // namespace millrace::loader
