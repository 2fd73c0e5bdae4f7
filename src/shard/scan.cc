// Implements scan_shard: reads headers and skips data.
#include "shard/scan.h"

namespace millrace::shard {

Result<ScanReport> scan_shard(const std::string& name, InputOptions options, const ScanCalls& calls) {
  options.read.group.on_fault = tar::OnFault::kMark;
  const auto input = MR_TRY(ShardInput::open(name, options));
  tar::MemberReader members = input->members(options.read.archives);
  tar::Grouper grouper(input->name(), options.read.group);
  ScanReport report;
  while (true) {
    const tar::Member* member = MR_TRY(members.next());
    if (member == nullptr) break;
    ++report.members;
    if (calls.member) MR_TRY(calls.member(*member));
    const tar::Grouper::Added added = MR_TRY(grouper.add(*member));
    if (added == tar::Grouper::Added::kCompleted && calls.sample) MR_TRY(calls.sample(grouper.completed()));
  }
  if (grouper.finish() && calls.sample) MR_TRY(calls.sample(grouper.completed()));
  report.samples = grouper.samples();
  report.loose_members = grouper.loose_members();
  if (options.progress != nullptr) options.progress->add(0, report.samples);
  return report;
}

}  // namespace millrace::shard
