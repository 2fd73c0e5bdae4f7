// ProgramRunner: transforms of the kinds command and filter: a program in a sandbox.
//
// A filter reads the tar and writes a tar. A command runs once for each sample, in a private directory with
// the sample's fields as files (shard/map.h); the agent, which is this program itself, runs it inside the one
// sandbox of the run. Thread-safe.
#pragma once

#include <string>

#include "base/file.h"
#include "transform/run.h"
#include "transform/sandbox.h"

namespace millrace::transform {

// The words by which the agent is started; it reads options behind them (cli/transform_agent.cc).
inline constexpr std::string_view kAgentVerb = "transform-agent";

class ProgramRunner final : public Runner {
 public:
  // `agent` is a program that knows kAgentVerb; empty: the one that runs. The room outlives it.
  ProgramRunner(SandboxRoom& room, std::string agent) : room_(room), agent_(std::move(agent)) {}
  Result<Outcome> run(const Registered& transform, const Input& input, tar::ByteSink& out) override;

 private:
  SandboxRoom& room_;
  const std::string agent_;
};

// What the agent says at its end, as JSON on kReportDescriptor.
struct AgentReport {
  Outcome outcome;
  std::string failure;  // with the sample's name; empty: none
};
Result<AgentReport> parse_agent_report(std::string_view text);
std::string agent_report_text(const AgentReport& report);

}  // namespace millrace::transform
