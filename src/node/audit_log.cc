// A queue of lines, the thread that writes them, and the two places they go to.
#include "node/audit_log.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/file.h"

namespace millrace::node {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBatchBytes = 256 << 10;
// After a place refused lines. Otherwise it is woken.
constexpr std::chrono::milliseconds kRetryEvery{1000};

class FileSink final : public AuditSink {
 public:
  explicit FileSink(std::string path) : path_(std::move(path)) {}

  Status reopen() override {
    // Keys, names and addresses are in it.
    const int descriptor = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) return make_system_error(errno, "opening the audit " + path_);
    file_ = File(descriptor, path_);
    return {};
  }
  Result<size_t> write(std::string_view lines) override {
    const ssize_t written = ::write(file_.descriptor(), lines.data(), lines.size());
    if (written < 0) return make_system_error(errno, "writing the audit " + path_);
    return static_cast<size_t>(written);
  }

 private:
  const std::string path_;
  File file_;
};

// One datagram a line, as syslog(3) sends them, but that a failure is noticed.
class SyslogSink final : public AuditSink {
 public:
  explicit SyslogSink(std::string socket) : path_(std::move(socket)) {}

  Status reopen() override {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof address.sun_path)
      return make_error(Code::kInvalid, "the path {} is too long for a socket", path_);
    std::memcpy(address.sun_path, path_.data(), path_.size());
    const int made = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (made < 0) return make_system_error(errno, "making a socket");
    File opened(made, path_);
    constexpr timeval kMostWait{1, 0};
    ::setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &kMostWait, sizeof kMostWait);
    if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      return make_system_error(errno, "reaching the system's log at " + path_);
    socket_ = std::move(opened);
    return {};
  }

  Result<size_t> write(std::string_view lines) override {
    // LOG_AUTHPRIV, LOG_INFO.
    constexpr std::string_view kPriority = "<86>";
    if (!socket_.is_open()) MR_TRY(reopen());
    const std::string_view line = lines.substr(0, lines.find('\n'));
    const std::string text = fmt::format("{}millrace[{}]: {}", kPriority, ::getpid(), line);
    if (::send(socket_.descriptor(), text.data(), text.size(), MSG_NOSIGNAL) < 0) {
      const int why = errno;
      // Whoever listened may have been started again.
      socket_ = File();
      return make_system_error(why, "writing the audit to the system's log");
    }
    return std::min(line.size() + 1, lines.size());
  }

 private:
  const std::string path_;
  File socket_;
};

template <typename Sink>
Result<std::unique_ptr<AuditSink>> open_sink(const std::string& place) {
  auto sink = std::make_unique<Sink>(place);
  MR_TRY(sink->reopen());
  return std::unique_ptr<AuditSink>(std::move(sink));
}

}  // namespace

Result<std::unique_ptr<AuditSink>> open_audit_file(const std::string& path) {
  return open_sink<FileSink>(path);
}

Result<std::unique_ptr<AuditSink>> open_syslog(const std::string& socket) {
  return open_sink<SyslogSink>(socket);
}

Result<std::unique_ptr<AuditSink>> open_audit_sink(const std::string& target) {
  return target == "syslog" ? open_syslog(kSyslogSocket) : open_audit_file(target);
}

AuditLog::AuditLog(std::unique_ptr<AuditSink> sink, std::string node, Log& log)
    : sink_(std::move(sink)), node_(std::move(node)), log_(log) {
  writer_.start(kRetryEvery, [this] { write_waiting(); });
}

AuditLog::~AuditLog() {
  stop();
}

std::string AuditLog::make_line(Json what) const {
  Json line = {{"time", format_iso_date(wall_ms())}, {"node", node_}};
  line.update(what);
  return gateway::audit_line(line) + "\n";
}

void AuditLog::note(Json what) {
  std::string line = make_line(std::move(what));
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    if (stopped_ || waiting_bytes_ + line.size() > kMostBytes) {
      ++missing_;
      ++reading_.lost;
      return;
    }
    wake = waiting_.empty();
    if (missing_ > 0) {
      std::string gap = make_line({{"event", "lost"}, {"lines", std::exchange(missing_, 0)}});
      waiting_bytes_ += gap.size();
      waiting_.push_back(std::move(gap));
    }
    waiting_bytes_ += line.size();
    waiting_.push_back(std::move(line));
  }
  if (wake) writer_.wake();
}

void AuditLog::reopen() {
  {
    const MutexLock lock(mutex_);
    reopen_ = true;
  }
  writer_.wake();
}

AuditLog::Reading AuditLog::read() const {
  const MutexLock lock(mutex_);
  return reading_;
}

void AuditLog::take_batch() {
  const MutexLock lock(mutex_);
  while (!waiting_.empty() && batch_.size() < kBatchBytes) {
    waiting_bytes_ -= waiting_.front().size();
    batch_ += waiting_.front();
    waiting_.pop_front();
  }
}

Status AuditLog::write_some() {
  const size_t taken = MR_TRY(sink_->write(batch_));
  const auto lines = static_cast<uint64_t>(std::ranges::count(batch_.substr(0, taken), '\n'));
  const size_t end = taken == 0 ? std::string::npos : batch_.rfind('\n', taken - 1);
  // What is behind the last end of a line is the beginning of the next.
  if (end == std::string::npos) {
    half_ += batch_.substr(0, taken);
  } else {
    half_ = batch_.substr(end + 1, taken - end - 1);
  }
  batch_.erase(0, taken);
  const MutexLock lock(mutex_);
  reading_.written += lines;
  return {};
}

void AuditLog::write_waiting() {
  const bool reopen = [&] {
    const MutexLock lock(mutex_);
    return std::exchange(reopen_, false);
  }();
  if (reopen) {
    // A line that was cut by the end of the old file is whole in the new one.
    batch_.insert(0, std::exchange(half_, ""));
    tell(sink_->reopen());
  }
  while (true) {
    take_batch();
    if (batch_.empty()) return;
    const Status written = write_some();
    tell(written);
    if (!written) return;
  }
}

void AuditLog::tell(const Status& status) {
  if (!status && !std::exchange(failing_, true))
    log_.warn("the audit cannot be written: lines wait, and are lost when there are too many", "error",
              status.error().message());
  if (status && std::exchange(failing_, false)) log_.info("the audit is written again");
}

void AuditLog::stop() {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(stopped_, true)) return;
  }
  writer_.stop();
  write_waiting();
  const MutexLock lock(mutex_);
  const auto half_way = static_cast<uint64_t>(std::ranges::count(batch_, '\n'));
  const uint64_t left = waiting_.size() + half_way + missing_;
  if (left > 0) log_.warn("the audit lacks its last lines", "lines", left);
}

}  // namespace millrace::node
