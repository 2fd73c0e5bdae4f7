// millrace cluster verify: has every slice of every object read, and says what is not as it was written.
#include "base/text.h"
#include "base/units.h"
#include "cli/cluster_text.h"
#include "cli/common.h"
#include "cli/remote.h"

namespace millrace::cli {

namespace {

struct VerifyFlags {
  std::string endpoint;
  std::string bucket;
};

struct Totals {
  uint64_t objects = 0;
  uint64_t slices = 0;
  uint64_t bytes = 0;
  uint64_t below = 0;
  uint64_t handed_over = 0;
  uint64_t missing = 0;
  uint64_t damaged = 0;
  uint64_t unseen = 0;
  uint64_t unseen_buckets = 0;

  bool is_clean() const { return below + missing + damaged + unseen + unseen_buckets == 0; }
};

Json totals_json(const Totals& totals) {
  return {{"clean", totals.is_clean()},
          {"objects", totals.objects},
          {"slices", totals.slices},
          {"bytes", totals.bytes},
          {"missing", totals.missing},
          {"damaged", totals.damaged},
          {"below_redundancy", totals.below},
          {"unseen", totals.unseen},
          {"unseen_buckets", totals.unseen_buckets},
          {"handed_over", totals.handed_over}};
}

void tell_finding(const Shell& shell, const Json& finding) {
  if (shell.json)
    Shell::print(finding);
  else
    fmt::print("{}\n", finding_text(finding));
}

void add_step(Shell& shell, const Json& step, Totals& totals) {
  for (const Json& finding : step.at("findings")) {
    const auto found = finding.at("found").get<std::string>();
    ++(found == "missing" ? totals.missing : found == "damaged" ? totals.damaged : totals.unseen);
    tell_finding(shell, finding);
  }
  const auto add = [&](uint64_t& total, const char* name) { total += step.at(name).get<uint64_t>(); };
  add(totals.objects, "objects");
  add(totals.slices, "slices");
  add(totals.bytes, "bytes");
  add(totals.below, "below_redundancy");
  add(totals.handed_over, "handed_over");
  shell.progress.add(step.at("bytes").get<uint64_t>(), step.at("objects").get<uint64_t>());
}

Status verify_bucket(Shell& shell, const std::string& endpoint, const std::string& bucket, Totals& totals) {
  Json request = {{"bucket", bucket}};
  while (true) {
    const Json step = MR_TRY(administer(shell, endpoint, "POST", "cluster/verify", request));
    add_step(shell, step, totals);
    if (!step.contains("next")) return {};
    request["next"] = step.at("next");
  }
}

Result<std::vector<std::string>> choose_buckets(Shell& shell, const VerifyFlags& flags) {
  if (!flags.bucket.empty()) return std::vector{flags.bucket};
  std::vector<std::string> names;
  const Json told = MR_TRY(administer(shell, flags.endpoint, "GET", "buckets", Json()));
  for (const Json& bucket : told.at("buckets")) names.push_back(bucket.at("name").get<std::string>());
  return names;
}

Status judge(const Totals& totals) {
  if (totals.is_clean()) return {};
  const bool bad = totals.missing + totals.damaged + totals.below > 0;
  Error error = make_error(
      bad ? Code::kCorrupt : Code::kUnavailable,
      "{} slices are missing, {} damaged, {} could not be looked at; {} objects are below "
      "their redundancy{}",
      totals.missing, totals.damaged, totals.unseen, totals.below,
      totals.unseen_buckets == 0
          ? ""
          : fmt::format("; {} buckets could not be looked at to their end", totals.unseen_buckets));
  if (!bad) return std::move(error).with_hint("bring nodes back that are away: millrace cluster status");
  return std::move(error).with_hint(
      totals.handed_over == 0
          ? "millrace cluster status shows what is being healed"
          : fmt::format("{} were handed over to be made again: verify once more in a while",
                        totals.handed_over));
}

Status run(Shell& shell, const VerifyFlags& flags) {
  Totals totals;
  const std::vector<std::string> buckets = MR_TRY(choose_buckets(shell, flags));
  {
    const auto bar = shell.bar("verifying", "objects");
    for (const std::string& bucket : buckets) {
      const Status verified = verify_bucket(shell, flags.endpoint, bucket, totals);
      if (verified) continue;
      // One that was asked for by name must be there; of many, the others are still worth looking at.
      if (!flags.bucket.empty() && totals.objects == 0) return verified.error().copy();
      ++totals.unseen_buckets;
      tell_finding(shell, {{"found", "unseen"}, {"bucket", bucket}, {"why", verified.error().message()}});
    }
  }
  if (shell.json) {
    Shell::print(totals_json(totals));
  } else {
    shell.say(fmt::format("verified {} slices of {} objects in {} buckets, {}", format_count(totals.slices),
                          format_count(totals.objects), buckets.size(), format_bytes(totals.bytes)));
  }
  return judge(totals);
}

}  // namespace

void add_cluster_verify(CLI::App& cluster, Shell& shell) {
  CLI::App* verb = cluster.add_subcommand(
      "verify", "Read every slice of every object on every node, and compare it with its checksums");
  verb->fallthrough();
  auto flags = std::make_shared<VerifyFlags>();
  verb->add_option("url", flags->endpoint,
                   "Any node of the cluster that runs; default MILLRACE_ENDPOINT or http://127.0.0.1:9400")
      ->type_name("URL");
  verb->add_option("--bucket", flags->bucket, "This bucket alone")->type_name("BUCKET");
  verb->footer(
      "Ends with 1 if anything is missing or damaged, or could not be looked at. Slices that are missing or\n"
      "damaged are made again from the others.\n"
      "Examples:\n  millrace cluster verify\n  millrace cluster verify http://10.0.0.2:9400 --bucket train");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
