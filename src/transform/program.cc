// One thread feeds the program, the caller's reads what it writes.
#include "transform/program.h"

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "tar/format.h"
#include "transform/checked_tar.h"

namespace millrace::transform {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPieceBytes = 256 << 10;

std::vector<std::string> agent_words(const Description& description) {
  std::vector<std::string> words = {fmt::format("/proc/self/fd/{}", kAgentDescriptor),
                                    std::string(kAgentVerb), "--on-error",
                                    std::string(on_error_name(description.on_error))};
  words.push_back("--memory");
  words.push_back(std::to_string(description.limits.memory / 4));
  if (description.many) words.emplace_back("--many");
  words.emplace_back("--");
  words.insert(words.end(), description.command.begin(), description.command.end());
  return words;
}

// The whole input, then the end of it. Where the program reads no more, that is its own affair.
Status feed(Sandbox& sandbox, tar::ByteSource& source) {
  std::vector<std::byte> buffer(kPieceBytes);
  while (true) {
    const size_t got = MR_TRY(source.read_some(buffer));
    if (got == 0) break;
    const auto written = sandbox.write({reinterpret_cast<const char*>(buffer.data()), got});
    if (!written) break;
  }
  sandbox.close_input();
  return {};
}

Status drain(Sandbox& sandbox, CheckedTar& out) {
  std::vector<std::byte> buffer(kPieceBytes);
  while (true) {
    const size_t got = MR_TRY(sandbox.read_some(buffer));
    if (got == 0) return {};
    MR_TRY(out.write({reinterpret_cast<const char*>(buffer.data()), got}));
  }
}

// Runs until everything is read and the program has ended, or something went wrong; then ends the program.
Status pump_all(Sandbox& sandbox, const Input& input, CheckedTar& out) {
  Status fed;
  std::jthread feeder([&] {
    fed = feed(sandbox, input.tar);
    if (!fed) sandbox.end(Sandbox::Ended::kStopped);
  });
  const Status drained = drain(sandbox, out);
  if (!drained) sandbox.end(Sandbox::Ended::kStopped);
  feeder.join();
  const Status ended = sandbox.finish();
  // The input's own failure explains all others; then that of whoever takes the output.
  if (!fed) return fed;
  if (!drained && !drained.error().is(kProgramFailed)) return drained.error().copy();
  // Words that came late belong to the failure.
  if (!ended) return ended.error().copy();
  return drained ? Status() : Status(drained.error().copy());
}

}  // namespace

Result<AgentReport> parse_agent_report(std::string_view text) {
  const auto bad = [] { return make_error(kTransformFailed, "the program's report makes no sense"); };
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return bad();
  const auto count = [&](const char* name) -> std::optional<uint64_t> {
    const Json value = json.value(name, Json());
    return value.is_number_unsigned() ? std::optional(value.get<uint64_t>()) : std::nullopt;
  };
  const auto in = count("in");
  const auto out = count("out");
  const auto failed = count("failed");
  const Json failure = json.value("failure", Json(""));
  if (!in || !out || !failed || !failure.is_string()) return bad();
  return AgentReport{{*in, *out, *failed}, failure.get<std::string>()};
}

std::string agent_report_text(const AgentReport& report) {
  const Json json = {{"in", report.outcome.in},
                     {"out", report.outcome.out},
                     {"failed", report.outcome.failed},
                     {"failure", report.failure}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Outcome> ProgramRunner::run(const Registered& transform, const Input& input, tar::ByteSink& out) {
  const Description& description = transform.description;
  const bool is_filter = description.kind == Kind::kFilter;
  SandboxOptions options{is_filter ? description.command : agent_words(description), description.limits};
  File agent;
  if (!is_filter) {
    agent = MR_TRY(File::open_read(agent_.empty() ? "/proc/self/exe" : agent_));
    options.agent = &agent;
    options.name = description.command[0];
  }
  const auto sandbox = MR_TRY(room_.start(options));
  CheckedTar checked(description.command[0], out);
  const Status pumped = pump_all(*sandbox, input, checked);
  if (is_filter) {
    if (!pumped) return pumped.error().copy();
    MR_TRY(checked.finish());
    return Outcome{};
  }
  // The agent's own words: which sample, and how its command ended.
  const std::string report_text = sandbox->take_report();
  if (!pumped && (report_text.empty() || !pumped.error().is(kProgramFailed))) return pumped.error().copy();
  const AgentReport report = MR_TRY(parse_agent_report(report_text));
  if (!report.failure.empty()) return Error(kProgramFailed, sandbox->with_words(report.failure));
  if (!pumped) return pumped.error().copy();
  MR_TRY(checked.finish());
  return report.outcome;
}

}  // namespace millrace::transform
