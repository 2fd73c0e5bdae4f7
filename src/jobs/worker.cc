// Orders in, results out; the work itself is that of the tools.
#include "jobs/worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/file.h"
#include "exchange/rank_sort.h"
#include "exchange/socket_group.h"
#include "jobs/task_work.h"
#include "jobs/worker_lines.h"
#include "net/url.h"

namespace millrace::jobs {

namespace {

constexpr uint64_t kRankTimeoutMs = 600'000;

class LineReader {
 public:
  explicit LineReader(File input) : input_(std::move(input)) {}
  // Nothing at the end.
  Result<std::optional<std::string>> next() {
    while (true) {
      const size_t end = buffer_.find('\n', looked_);
      if (end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        looked_ = 0;
        return std::optional(std::move(line));
      }
      looked_ = buffer_.size();
      if (buffer_.size() > kMostLineBytes) return make_error(Code::kTooLarge, "an order is too long");
      std::array<std::byte, 64 << 10> some{};
      const size_t got = MR_TRY(input_.read_some(some));
      if (got == 0) return std::optional<std::string>();
      buffer_.append(reinterpret_cast<const char*>(some.data()), got);
    }
  }

 private:
  File input_;
  std::string buffer_;
  size_t looked_ = 0;
};

Outcome outcome_of(const Error& error) {
  switch (error.code()) {
    case Code::kUnavailable:
    case Code::kIo:
    case Code::kNoSpace:
    case Code::kCancelled:
    case Code::kTruncated:
      return Outcome::kFailed;
    default:
      return Outcome::kHopeless;
  }
}

WorkResult failure(const Error& error) {
  std::string message = error.message();
  if (!error.hint().empty()) message += "\n  try: " + error.hint();
  return {outcome_of(error), {}, std::move(message)};
}

class Worker {
 public:
  Worker(transfer::Stores& stores, File answers) : stores_(stores), answers_(std::move(answers)) {}

  Status take(const std::string& line) {
    const WorkOrder order = MR_TRY(decode_order(line));
    if (const auto* const setup = std::get_if<WorkSetup>(&order)) return begin(*setup);
    if (!setup_) return make_error(Code::kInvalid, "the first order is a setup");
    if (const auto* const task = std::get_if<WorkTask>(&order)) return work(*task);
    if (const auto* const listen = std::get_if<WorkListen>(&order)) {
      listener_ = MR_TRY(exchange::RankListener::open(listen->host));
      return answer(WorkPort{listener_->port()});
    }
    return sort(std::get<WorkRanks>(order));
  }

 private:
  Status answer(const WorkAnswer& said) { return answers_.write_all(encode(said) + "\n"); }

  Status begin(const WorkSetup& setup) {
    setup_ = setup;
    return write_files(setup);
  }

  Status work(const WorkTask& task) {
    auto done = run_task({stores_, *setup_}, task);
    if (done) return answer(WorkResult{Outcome::kDone, done.take(), ""});
    return answer(failure(done.error()));
  }

  Status sort(const WorkRanks& order) {
    if (!listener_) return make_error(Code::kInvalid, "ranks begin with an order to listen");
    auto done = sort_as_rank(order);
    listener_.reset();
    if (done) return answer(WorkResult{Outcome::kDone, done.take(), ""});
    WorkResult said = failure(done.error());
    if (done.error().code() == Code::kUnavailable) said.outcome = Outcome::kCut;
    return answer(said);
  }

  Result<Sums> sort_as_rank(const WorkRanks& order) {
    exchange::SocketRanks ranks;
    ranks.rank = order.rank;
    ranks.secret = order.secret;
    for (const std::string& address : order.addresses) {
      const net::Url url = MR_TRY(net::parse_url("http://" + address));
      ranks.ranks.push_back({url.host, url.port});
    }
    const auto group = MR_TRY(exchange::open_socket_group(*listener_, ranks));
    exchange::RankSortOptions options = MR_TRY(rank_options({stores_, *setup_}));
    options.timeout_ms = kRankTimeoutMs;
    const auto report = MR_TRY(exchange::sort_over_ranks(*group, order.inputs, options));
    Sums sums = {{"samples", static_cast<int64_t>(report.sort.samples)},
                 {"shards", static_cast<int64_t>(report.shards.size())},
                 {"spilled_bytes", static_cast<int64_t>(report.sort.spilled_bytes)}};
    for (const shard::ShardSummary& shard : report.shards)
      sums["bytes_out"] += static_cast<int64_t>(shard.stored_bytes);
    return sums;
  }

  transfer::Stores& stores_;
  File answers_;
  std::optional<WorkSetup> setup_;
  std::optional<exchange::RankListener> listener_;
};

}  // namespace

Status run_worker(transfer::Stores& stores) {
  LineReader orders(MR_TRY(File::standard_input()));
  // What commands print must not come between the answers.
  const int descriptor = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (descriptor < 0) return make_system_error(errno, "keeping standard output");
  Worker worker(stores, File(descriptor, "standard output"));
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  while (const auto line = MR_TRY(orders.next())) MR_TRY(worker.take(*line));
  return {};
}

}  // namespace millrace::jobs
