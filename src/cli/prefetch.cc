// millrace prefetch: has objects of buckets in front of other storage fetched before they are read.
#include <deque>
#include <map>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "cli/common.h"
#include "cli/copying.h"
#include "transfer/prefetch.h"

namespace millrace::cli {

namespace {

// As many as one request may name are looked at; those that come take turns at the node.
constexpr size_t kAtOnce = 200;
constexpr int64_t kLookAgainMs = 300;

struct PrefetchFlags {
  std::vector<std::string> addresses;
  bool recursive = false;
};

struct Totals {
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t were_there = 0;
  std::vector<std::string> problems;
};

// The keys of one bucket on their way.
class Prefetch {
 public:
  Prefetch(Shell& shell, transfer::Location bucket, std::vector<std::string> keys)
      : shell_(shell), bucket_(std::move(bucket)), waiting_(keys.begin(), keys.end()) {}

  Status run(Totals& totals) {
    while (!waiting_.empty() || !asked_.empty()) {
      while (asked_.size() < kAtOnce && !waiting_.empty()) {
        asked_.try_emplace(std::move(waiting_.front()));
        waiting_.pop_front();
      }
      if (MR_TRY(ask(totals)) == 0 && !asked_.empty()) MR_TRY(bucket_.store->client().pause(kLookAgainMs));
    }
    return {};
  }

 private:
  struct Seen {
    uint64_t bytes = 0;
    bool is_first = true;
  };

  // How many are done.
  Result<size_t> ask(Totals& totals) {
    std::vector<std::string> keys;
    for (const auto& [key, seen] : asked_) keys.push_back(key);
    size_t done = 0;
    for (const transfer::Prefetched& one : MR_TRY(transfer::ask_prefetch(bucket_, keys)))
      done += take(one, totals) ? 1 : 0;
    return done;
  }

  bool take(const transfer::Prefetched& one, Totals& totals) {
    using State = transfer::Prefetched::State;
    const auto found = asked_.find(one.key);
    if (found == asked_.end()) return false;
    Seen& seen = found->second;
    const uint64_t bytes = one.stored_bytes;
    if (one.state == State::kComing) {
      if (bytes > seen.bytes) shell_.progress.add(bytes - seen.bytes, 0);
      seen = {std::max(bytes, seen.bytes), false};
      return false;
    }
    if (one.state == State::kStored) {
      if (seen.is_first) ++totals.were_there;
      if (!seen.is_first) totals.bytes += bytes;
      ++totals.objects;
      shell_.progress.add(bytes - std::min(bytes, seen.bytes), 1);
    } else {
      totals.problems.push_back(one.problem);
    }
    asked_.erase(found);
    return true;
  }

  Shell& shell_;
  const transfer::Location bucket_;
  std::deque<std::string> waiting_;
  std::map<std::string, Seen> asked_;
};

Status report(Shell& shell, const Totals& totals, const Stopwatch& watch) {
  const double seconds = watch.seconds();
  if (shell.json) {
    Shell::print({{"objects", totals.objects},
                  {"were_there", totals.were_there},
                  {"fetched_bytes", totals.bytes},
                  {"failed", totals.problems.size()},
                  {"seconds", seconds}});
  } else {
    shell.say(fmt::format("{} object{} stored; {} fetched in {:.1f} s, {} were there already",
                          format_count(totals.objects), totals.objects == 1 ? " is" : "s are",
                          format_bytes(totals.bytes), seconds, format_count(totals.were_there)));
  }
  if (totals.problems.empty()) return {};
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < std::min(totals.problems.size(), kShown); ++i)
    fmt::print(stderr, "millrace: {}\n", printable(totals.problems[i]));
  return make_error(Code::kUnavailable, "{} of {} objects could not be fetched", totals.problems.size(),
                    totals.problems.size() + totals.objects)
      .with_hint("millrace bucket shows the upstream of each bucket");
}

Status run(Shell& shell, const PrefetchFlags& flags) {
  const Stopwatch watch;
  const auto recursion = flags.recursive ? transfer::Recursion::kYes : transfer::Recursion::kNo;
  struct Bucket {
    transfer::Location location;
    std::vector<std::string> keys;
  };
  std::map<std::string, Bucket> buckets;
  uint64_t expected = 0;
  for (const transfer::Choice& choice : MR_TRY(choose(shell, flags.addresses, recursion))) {
    const transfer::Location& object = choice.location;
    Bucket& bucket = buckets[object.store->text(object.bucket, "")];
    bucket.location = object.with_key("");
    bucket.keys.push_back(object.key);
    expected += choice.size;
    if (shell.dry_run) say_step(shell, "fetch", object.text());
  }
  if (shell.dry_run) return {};
  if (expected > 0) shell.progress.expect(expected);
  Totals totals;
  {
    const auto bar = shell.bar("fetching", "objects");
    for (auto& [name, bucket] : buckets)
      MR_TRY(Prefetch(shell, bucket.location, std::move(bucket.keys)).run(totals));
  }
  return report(shell, totals, watch);
}

}  // namespace

void add_prefetch(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("prefetch", "Fetch objects of an upstream before they are read");
  verb->fallthrough();
  auto flags = std::make_shared<PrefetchFlags>();
  verb->add_option("objects", flags->addresses,
                   "Objects of buckets in front of other storage; brace ranges, globs, with -r prefixes")
      ->required()
      ->type_name("URL");
  verb->add_flag("-r,--recursive", flags->recursive, "All objects below the addresses");
  add_dry_run(*verb, shell);
  verb->footer(
      "Examples:\n  millrace prefetch 'mr://train/{000000..000999}.tar'\n  millrace prefetch -r "
      "mr://train/val/");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
