// Log: a constant message plus key=value pairs, on standard error.
//
//   log.warn("left out members that belong to no sample", "count", 12, "shard", path);
//
// A program that runs for long stamps its lines with the time (UTC). Made once in main and passed by
// reference; thread-safe. Nothing is logged per sample: count instead.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace millrace {

enum class LogLevel { kDebug, kInfo, kWarn };
enum class LogStamps { kNone, kTime };

class Log {
 public:
  explicit Log(LogLevel least, LogStamps stamps = LogStamps::kNone);
  ~Log();

  template <typename... Pairs>
  void debug(std::string_view message, const Pairs&... pairs) {
    write(LogLevel::kDebug, message, join(pairs...));
  }
  template <typename... Pairs>
  void info(std::string_view message, const Pairs&... pairs) {
    write(LogLevel::kInfo, message, join(pairs...));
  }
  template <typename... Pairs>
  void warn(std::string_view message, const Pairs&... pairs) {
    write(LogLevel::kWarn, message, join(pairs...));
  }

 private:
  static std::string join() { return {}; }
  template <typename Value, typename... Rest>
  static std::string join(std::string_view key, const Value& value, const Rest&... rest) {
    return fmt::format(" {}={}", key, value) + join(rest...);
  }
  void write(LogLevel level, std::string_view message, const std::string& pairs);

  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace millrace
