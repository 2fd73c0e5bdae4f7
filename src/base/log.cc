// Implements Log with spdlog.
#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include "base/terminal.h"

namespace millrace {

namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
  }
  return spdlog::level::info;
}

}  // namespace

Log::Log(LogLevel least, LogStamps stamps)
    : logger_(std::make_shared<spdlog::logger>(
          "millrace",
          std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
              shows_colours(STDERR_FILENO) ? spdlog::color_mode::always : spdlog::color_mode::never))) {
  const char* const pattern =
      stamps == LogStamps::kTime ? "%Y-%m-%dT%H:%M:%S.%eZ millrace: %^%l%$: %v" : "millrace: %^%l%$: %v";
  logger_->set_pattern(pattern, spdlog::pattern_time_type::utc);
  logger_->set_level(level_of(least));
}

Log::~Log() = default;

void Log::write(LogLevel level, std::string_view message, const std::string& pairs) {
  logger_->log(level_of(level), "{}{}", message, pairs);
}

}  // namespace millrace
