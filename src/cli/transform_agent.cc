// Maps samples through a command inside a sandbox.
#include "cli/transform_agent.h"

#include <fcntl.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/number.h"
#include "shard/map.h"
#include "transform/program.h"

namespace millrace::cli {

namespace {

constexpr uint64_t kLeastMemory = 4 << 20;

shard::OnCommandError parse_policy(std::string_view text) {
  if (text == "skip") return shard::OnCommandError::kSkip;
  return text == "keep" ? shard::OnCommandError::kKeep : shard::OnCommandError::kAbort;
}

// --on-error POLICY --memory BYTES [--many] -- PROGRAM ARGUMENTS…
shard::MapOptions parse_words(const std::vector<std::string>& words) {
  shard::MapOptions options;
  const auto dashes = std::ranges::find(words, "--");
  for (auto word = words.begin(); word != dashes; ++word) {
    if (*word == "--many") options.fanout = shard::Fanout::kMany;
    if (*word == "--on-error" && ++word != dashes) options.on_error = parse_policy(*word);
    if (*word == "--memory" && ++word != dashes)
      options.memory = std::max(kLeastMemory, parse_number<uint64_t>(*word).value_or(0));
    if (word == dashes) break;
  }
  if (dashes != words.end()) options.command.assign(dashes + 1, words.end());
  options.jobs = std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
  return options;
}

Result<transform::Outcome> map(shard::MapOptions options) {
  const shard::PrivateDirectory directory = MR_TRY(shard::PrivateDirectory::make("/tmp"));
  options.directory = directory.path();
  shard::InputStream samples({std::string(shard::kStandardStream)}, {});
  shard::OutputOptions output;
  output.index = shard::IndexPolicy::kNone;
  output.compression = tar::Compression::kNone;
  const auto file = MR_TRY(shard::ShardFile::create(std::string(shard::kStandardStream), output));
  const shard::MapCalls calls = {
      [&](std::string_view key, std::span<const shard::NewField> fields) { return file->add(key, fields); },
      [&](const tar::Sample& sample) { return file->add(sample); }};
  const shard::MapReport report = MR_TRY(shard::map_samples(samples, options, calls));
  MR_TRY(file->finish());
  return transform::Outcome{report.in, report.out, report.failed};
}

}  // namespace

bool is_agent(int argc, char** argv) {
  return argc > 1 && std::string_view(argv[1]) == transform::kAgentVerb;
}

int run_agent(int argc, char** argv) {
  // The command has no use for what the agent was given.
  for (int descriptor = transform::kReportDescriptor; descriptor <= transform::kAgentDescriptor; ++descriptor)
    static_cast<void>(::fcntl(descriptor, F_SETFD, FD_CLOEXEC));
  const auto outcome = map(parse_words(std::vector<std::string>(argv + 2, argv + argc)));
  transform::AgentReport report;
  if (outcome) report.outcome = *outcome;
  if (!outcome) report.failure = outcome.error().message();
  File file(transform::kReportDescriptor, "report");
  const Status written = file.write_all(transform::agent_report_text(report));
  return outcome && written ? 0 : 1;
}

}  // namespace millrace::cli
