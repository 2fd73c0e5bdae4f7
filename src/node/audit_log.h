// AuditLog: keeps the lines of the audit (gateway/audit.h): in a file, or by the system's log.
//
// note() puts a line into a queue and returns; one thread writes. A drive that is full or stands still stops
// no request: lines wait, kMostBytes of them, then new ones are dropped and counted. A store that stopped
// serving because its audit could not be written would be a store that anyone with a full log drive could
// stop. The first line after a loss says how many are missing, so that nobody takes the audit for complete.
//
// Lines are whole: one that was written in part is finished, or begun again in the next file. They are not
// flushed to the drive one by one. note(), reopen() and read(): any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/background.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "gateway/audit.h"

namespace millrace::node {

// Where lines go. Used by one thread.
class AuditSink {
 public:
  virtual ~AuditSink() = default;
  // Bytes that it took of whole lines with their ends; fewer than there are, where the place is full.
  virtual Result<size_t> write(std::string_view lines) = 0;
  // Of a file that was renamed: what comes next goes into a new one of the old name.
  virtual Status reopen() = 0;
};
Result<std::unique_ptr<AuditSink>> open_audit_file(const std::string& path);
// The socket on which the system's log listens.
inline constexpr const char* kSyslogSocket = "/dev/log";
Result<std::unique_ptr<AuditSink>> open_syslog(const std::string& socket);
// "syslog", or the path of a file.
Result<std::unique_ptr<AuditSink>> open_audit_sink(const std::string& target);

class AuditLog final : public gateway::Audit {
 public:
  static constexpr size_t kMostBytes = 16 << 20;

  // `node` is in every line.
  AuditLog(std::unique_ptr<AuditSink> sink, std::string node, Log& log);
  ~AuditLog() override;

  void note(nlohmann::ordered_json what) override;
  void reopen();
  // Writes what waits, as far as the place takes it now, and ends. No line is taken afterwards.
  void stop();

  struct Reading {
    uint64_t written = 0;  // lines
    uint64_t lost = 0;
  };
  Reading read() const;

 private:
  void write_waiting();
  Status write_some();
  void take_batch();
  void tell(const Status& status);
  std::string make_line(nlohmann::ordered_json what) const;

  const std::unique_ptr<AuditSink> sink_;
  const std::string node_;
  Log& log_;
  // Of the thread.
  std::string batch_;     // whole lines, but for the beginning of the first
  std::string half_;      // that beginning, which was written already
  bool failing_ = false;  // and the log was told so

  mutable Mutex mutex_;
  std::deque<std::string> waiting_ MR_GUARDED_BY(mutex_);
  size_t waiting_bytes_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t missing_ MR_GUARDED_BY(mutex_) = 0;  // lost since the last line that was taken
  bool reopen_ MR_GUARDED_BY(mutex_) = false;
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  Reading reading_ MR_GUARDED_BY(mutex_);
  Background writer_;  // last: it uses all of the above
};

}  // namespace millrace::node
