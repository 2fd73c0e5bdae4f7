// Tables, summaries and the progress line of jobs.
#include "cli/job_text.h"

#include <unistd.h>

#include "base/text.h"
#include "base/units.h"

namespace millrace::cli {

namespace {

uint64_t count(const Json& json, const char* name) {
  const Json value = json.value(name, Json());
  return value.is_number() ? static_cast<uint64_t>(std::max(0.0, value.get<double>())) : 0;
}

double real(const Json& json, const char* name) {
  const Json value = json.value(name, Json());
  return value.is_number() ? value.get<double>() : 0;
}

std::string text(const Json& json, const char* name) {
  const Json value = json.value(name, Json());
  return value.is_string() ? printable(value.get<std::string>()) : std::string();
}

std::string duration(double seconds) {
  const auto whole = static_cast<uint64_t>(std::max(0.0, seconds) + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// Where one stage is: "120 of 500 tasks".
std::string done_text(const Json& stage) {
  if (stage.value("together", false))
    return fmt::format("{} of {} ranks", count(stage, "done"),
                       count(stage, "done") + count(stage, "running") + count(stage, "failed"));
  return fmt::format("{} of {} tasks", format_count(count(stage, "done")),
                     format_count(count(stage, "tasks")));
}

const Json& last_stage(const Json& job) {
  return job.at("stages").back();
}

std::string pace_text(const Json& job) {
  std::string pace;
  if (job.contains("bytes_per_second"))
    pace += fmt::format(", {}/s", format_bytes(count(job, "bytes_per_second")));
  else if (job.contains("tasks_per_second"))
    pace += fmt::format(", {:.1f} tasks/s", real(job, "tasks_per_second"));
  if (job.contains("seconds_left")) pace += fmt::format(", {} left", duration(real(job, "seconds_left")));
  return pace;
}

std::string progress_text(const Json& job) {
  const Json& stage = last_stage(job);
  std::string line =
      fmt::format("{} {}  {}: {}", text(job, "kind"), text(job, "id"), text(stage, "name"), done_text(stage));
  if (count(stage, "failed") > 0) line += fmt::format(", {} failed", count(stage, "failed"));
  return line + pace_text(job) + fmt::format(", {} nodes", job.at("nodes").size());
}

void add_log(std::string& shown, const std::string& log) {
  std::string_view left = log;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    shown += fmt::format("    {}\n", printable(line));
  }
}

}  // namespace

std::string jobs_text(const Json& jobs) {
  const Json& list = jobs.at("jobs");
  if (list.empty()) return "no jobs\n";
  std::string shown =
      fmt::format("{:<10}{:<11}{:<10}{:<26}{}\n", "id", "kind", "state", "created", "progress");
  for (const Json& job : list) {
    shown += fmt::format("{:<10}{:<11}{:<10}{:<26}{}: {}{}\n", text(job, "id"), text(job, "kind"),
                         text(job, "state"), text(job, "created"), text(last_stage(job), "name"),
                         done_text(last_stage(job)), text(job, "state") == "running" ? pace_text(job) : "");
  }
  return shown;
}

std::string job_text(const Json& job) {
  std::string shown = fmt::format("job {}: {}, {}\n", text(job, "id"), text(job, "kind"), text(job, "state"));
  if (job.contains("message")) shown += fmt::format("  {}\n", text(job, "message"));
  if (job.contains("note")) shown += fmt::format("  note: {}\n", text(job, "note"));
  for (const Json& input : job.at("inputs"))
    shown += fmt::format("  in:  {}\n", printable(input.get<std::string>()));
  if (job.contains("output")) shown += fmt::format("  out: {}\n", text(job, "output"));
  shown += fmt::format("  began {}, {} under way{}\n", text(job, "created"), duration(real(job, "seconds")),
                       pace_text(job));
  for (const Json& stage : job.at("stages")) {
    shown += fmt::format("  {}: {}, {} running, {} failed\n", text(stage, "name"), done_text(stage),
                         count(stage, "running"), count(stage, "failed"));
    for (const auto& [name, value] : stage.at("sums").items()) {
      const bool bytes = name.starts_with("bytes") || name.ends_with("bytes");
      shown += fmt::format("    {}: {}\n", printable(name),
                           bytes ? format_bytes(value.get<uint64_t>()) : value.dump());
    }
    const Json counters = stage.value("counters", Json::object());
    for (const auto& [name, value] : counters.items())
      shown += fmt::format("    counter {}: {}\n", printable(name), value.dump());
  }
  for (const auto& [node, tasks] : job.at("nodes").items())
    shown += fmt::format("  node {} has {}\n", node, tasks.dump());
  const Json failures = job.value("failures", Json::array());
  for (const Json& failure : failures) {
    shown += fmt::format("  failed: task {}\n", failure.at("task").dump());
    add_log(shown, failure.at("log").get<std::string>());
  }
  const Json logs = job.value("logs", Json::object());
  for (const auto& [name, log] : logs.items()) {
    shown += fmt::format("  an earlier attempt of {}:\n", name);
    add_log(shown, log.get<std::string>());
  }
  return shown;
}

std::string job_summary(const Json& job) {
  std::string line = fmt::format("job {} ({}) is {}", text(job, "id"), text(job, "kind"), text(job, "state"));
  const Json& stage = last_stage(job);
  line += ": " + done_text(stage);
  const Json& sums = stage.at("sums");
  for (const auto& [name, word] : {std::pair("bytes_in", "in"), std::pair("bytes_out", "out")}) {
    if (sums.contains(name)) line += fmt::format(", {} {}", format_bytes(count(sums, name)), word);
  }
  if (sums.contains("samples")) line += fmt::format(", {} samples", format_count(count(sums, "samples")));
  return line + fmt::format(", in {:.1f} s", real(job, "seconds"));
}

JobLine::JobLine(const Shell& shell) : is_shown_(!shell.quiet && ::isatty(STDERR_FILENO) == 1) {}

void JobLine::draw(const Json& job) {
  if (!is_shown_) return;
  fmt::print(stderr, "\r\x1b[K{}", progress_text(job));
  std::fflush(stderr);
  is_drawn_ = true;
}

void JobLine::clear() {
  if (!is_drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  is_drawn_ = false;
}

}  // namespace millrace::cli
