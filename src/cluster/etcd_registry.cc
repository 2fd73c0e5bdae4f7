// The registry's calls as etcd's, and the thread of a watch.
#include "cluster/etcd_registry.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "cluster/etcd_answers.h"
#include "net/digest.h"
#include "net/lifeline.h"

namespace millrace::cluster {

namespace {

using Json = nlohmann::json;

constexpr net::Timeouts kCallTimeouts{.connect_ms = 1000, .first_byte_ms = 3000, .io_ms = 10'000};
// Short enough that a lease of 6 s outlives a member that does not answer.
constexpr net::Timeouts kRenewalTimeouts{.connect_ms = 1000, .first_byte_ms = 1500, .io_ms = 1500};
// A member that vanished without a word is given up after so long.
constexpr net::Timeouts kWatchTimeouts{.connect_ms = 1000, .first_byte_ms = 5000, .io_ms = 20'000};
constexpr int64_t kFirstPauseMs = 50;
constexpr int64_t kLongestPauseMs = 2000;
// etcd tells the changes of a thousand revisions at once, values included.
constexpr size_t kMostLineBytes = 64 << 20;

net::ClientOptions client_options(const EtcdOptions& options, const net::Timeouts& timeouts) {
  net::ClientOptions made;
  made.timeouts = timeouts;
  made.ca_file = options.ca_file;
  made.verify = options.verify;
  // The caller goes to another member instead.
  made.most_attempts = 1;
  made.patience_ms = 0;
  return made;
}

// The first key behind all that begin with this one, whose last letter is ASCII.
std::string end_of(std::string prefix) {
  ++prefix.back();
  return prefix;
}

Json range_of(const std::string& prefix) {
  return {{"key", net::to_base64(prefix)}, {"range_end", net::to_base64(end_of(prefix))}};
}

}  // namespace

Result<std::unique_ptr<EtcdRegistry>> EtcdRegistry::open(const std::string& address,
                                                         const EtcdOptions& options) {
  EtcdAddress parsed = MR_TRY(parse_etcd_address(address));
  auto caller = MR_TRY(EtcdCaller::make(parsed, client_options(options, kCallTimeouts)));
  auto renewals = MR_TRY(EtcdCaller::make(parsed, client_options(options, kRenewalTimeouts)));
  return std::unique_ptr<EtcdRegistry>(
      new EtcdRegistry(std::move(parsed), options, std::move(caller), std::move(renewals)));
}

Result<std::optional<Entry>> EtcdRegistry::get(const std::string& name) {
  MR_TRY(check_name(name));
  const Json asked = {{"key", net::to_base64(key(name))}};
  const auto answer = MR_TRY(caller_->call("/v3/kv/range", asked.dump()));
  EtcdRange range = MR_TRY(parse_range(answer.body));
  if (range.entries.empty()) return std::optional<Entry>();
  Entry entry = std::move(range.entries.front());
  if (entry.name != key(name)) return make_error(Code::kCorrupt, "etcd gave another entry than {}", name);
  entry.name = name;
  return std::optional<Entry>(std::move(entry));
}

Result<std::vector<Entry>> EtcdRegistry::list(const std::string& prefix) {
  MR_TRY(check_prefix(prefix));
  const auto answer = MR_TRY(caller_->call("/v3/kv/range", range_of(key(prefix)).dump()));
  EtcdRange range = MR_TRY(parse_range(answer.body));
  for (Entry& entry : range.entries) {
    if (!entry.name.starts_with(key(prefix)))
      return make_error(Code::kCorrupt, "etcd gave an entry outside of {}", prefix);
    entry.name.erase(0, address_.prefix.size());
  }
  std::ranges::sort(range.entries, {}, &Entry::name);
  return std::move(range.entries);
}

Result<std::optional<uint64_t>> EtcdRegistry::transact(const std::string& name, uint64_t expected,
                                                       const std::string& then) {
  const Json compare = {{"key", net::to_base64(key(name))},
                        {"target", "MOD"},
                        {"result", "EQUAL"},
                        {"mod_revision", fmt::format("{}", expected)}};
  const std::string body = fmt::format(R"({{"compare":[{}],"success":[{}]}})", compare.dump(), then);
  const auto answer = MR_TRY(caller_->call("/v3/kv/txn", body));
  const EtcdTransaction done = MR_TRY(parse_transaction(answer.body));
  if (done.succeeded) return std::optional<uint64_t>(done.revision);
  if (!answer.repeated) return std::optional<uint64_t>();
  // The attempt that nobody answered may have been the one that was faster.
  return make_error(Code::kUnavailable,
                    "whether {} was changed is not known: a member of etcd did not answer", name);
}

Result<std::optional<uint64_t>> EtcdRegistry::swap(const std::string& name, uint64_t expected,
                                                   const std::string& value, LeaseId lease) {
  MR_TRY(check_name(name));
  MR_TRY(check_value(name, value));
  const Json put = {{"request_put",
                     {{"key", net::to_base64(key(name))},
                      {"value", net::to_base64(value)},
                      {"lease", fmt::format("{}", static_cast<uint64_t>(lease))}}}};
  return transact(name, expected, put.dump());
}

Result<bool> EtcdRegistry::remove(const std::string& name, uint64_t expected) {
  MR_TRY(check_name(name));
  // etcd takes revision 0 for "there is none", and removing none is not removing.
  if (expected == 0) return false;
  const Json erase = {{"request_delete_range", {{"key", net::to_base64(key(name))}}}};
  return MR_TRY(transact(name, expected, erase.dump())).has_value();
}

Result<LeaseId> EtcdRegistry::grant(std::chrono::milliseconds ttl) {
  MR_TRY(check_ttl(ttl));
  const Json asked = {{"TTL", fmt::format("{}", std::chrono::ceil<std::chrono::seconds>(ttl).count())}};
  const auto answer = MR_TRY(caller_->call("/v3/lease/grant", asked.dump()));
  return parse_grant(answer.body);
}

Result<bool> EtcdRegistry::renew(LeaseId lease) {
  const Json asked = {{"ID", fmt::format("{}", static_cast<uint64_t>(lease))}};
  const auto answer = MR_TRY(renewals_->call("/v3/lease/keepalive", asked.dump()));
  return parse_renewal(answer.body);
}

Status EtcdRegistry::revoke(LeaseId lease) {
  const Json asked = {{"ID", fmt::format("{}", static_cast<uint64_t>(lease))}};
  auto answer = caller_->call("/v3/lease/revoke", asked.dump());
  if (answer || answer.error().is(kLeaseEnded)) return {};
  return answer.take_error();
}

class EtcdRegistry::EtcdWatch : public Watch {
 public:
  EtcdWatch(const EtcdRegistry& of, const std::string& prefix, std::function<void()> changed)
      : prefix_(of.key(prefix)), changed_(std::move(changed)) {
    net::ClientOptions options = client_options(of.options_, kWatchTimeouts);
    options.lifeline = lifeline_;
    auto made = EtcdCaller::make(of.address_, options);
    // The same address and options made the registry.
    MR_ASSERT(made.has_value());
    caller_ = made.take();
    thread_ = std::jthread([this] { run(); });
  }
  ~EtcdWatch() override { lifeline_->cut(); }

 private:
  void run() {
    int64_t pause_ms = kFirstPauseMs;
    do {
      if (follow()) pause_ms = kFirstPauseMs;
      caller_->move_on();
      pause_ms = std::min(pause_ms * 2, kLongestPauseMs);
    } while (lifeline_->pause(pause_ms));
  }

  // Learns where the store is. What changed before that, nobody told: so one call.
  Status begin() {
    Json asked = range_of(prefix_);
    asked["count_only"] = true;
    const auto answer = MR_TRY(caller_->call("/v3/kv/range", asked.dump()));
    const EtcdRange range = MR_TRY(parse_range(answer.body));
    seen_ = range.revision;
    changed_();
    return {};
  }

  // Until the stream breaks. True: it was a good one.
  bool follow() {
    if (!seen_ && !begin()) return false;
    Json asked = range_of(prefix_);
    asked["start_revision"] = fmt::format("{}", *seen_ + 1);
    asked["progress_notify"] = true;
    auto response = caller_->open_stream("/v3/watch", Json{{"create_request", asked}}.dump());
    if (!response) return false;
    bool begun = false;
    std::string text;
    std::array<std::byte, 16 << 10> buffer;
    while (true) {
      const auto got = response->read_some(buffer);
      if (!got || *got == 0) return begun;
      text.append(reinterpret_cast<const char*>(buffer.data()), *got);
      for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
        if (!take_line(std::string_view(text).substr(0, end))) return begun;
        begun = true;
      }
      if (text.size() > kMostLineBytes) {
        // Too much to be told: looked up instead.
        seen_.reset();
        return false;
      }
    }
  }

  // False: the stream is over.
  bool take_line(std::string_view line) {
    const auto notice = parse_notice(line);
    if (!notice) return false;
    // A store that is younger than what was seen has lost something, or is behind: what follows would
    // otherwise go unheard until it has caught up.
    const bool went_back = notice->created && notice->store_revision < *seen_;
    if (went_back || notice->compacted > 0) {
      seen_.reset();
      return false;
    }
    seen_ = std::max(*seen_, notice->seen);
    if (notice->changed) changed_();
    return !notice->cancelled;
  }

  const std::string prefix_;
  const std::function<void()> changed_;
  const std::shared_ptr<net::Lifeline> lifeline_ = std::make_shared<net::Lifeline>();
  std::unique_ptr<EtcdCaller> caller_;
  std::optional<uint64_t> seen_;  // all changes up to this revision were told
  std::jthread thread_;           // last: it uses all of the above
};

std::unique_ptr<Watch> EtcdRegistry::watch(const std::string& prefix, std::function<void()> changed) {
  return std::make_unique<EtcdWatch>(*this, prefix, std::move(changed));
}

}  // namespace millrace::cluster
