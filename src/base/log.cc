// spdlog behind our own few words.
#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

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

Log::Log(LogLevel least)
    : logger_(
          std::make_shared<spdlog::logger>("millrace", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_pattern("millrace: %l: %v");
  logger_->set_level(level_of(least));
}

Log::~Log() = default;

void Log::write(LogLevel level, std::string_view message, const std::string& pairs) {
  logger_->log(level_of(level), "{}{}", message, pairs);
}

}  // namespace millrace
