// Reads /proc/meminfo and the memory limit of the process's control group (a container's limit).
#include "base/memory_info.h"

#include <algorithm>
#include <string>

#include "base/file.h"
#include "base/number.h"

namespace millrace {

namespace {

constexpr uint64_t kMostText = 64 << 10;

uint64_t number_at(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  return take_number<uint64_t>(text).value_or(0);
}

// 0: none.
uint64_t group_number(const char* name) {
  const auto text = read_file(std::string("/sys/fs/cgroup/") + name, kMostText);
  return text ? number_at(*text) : 0;
}

}  // namespace

uint64_t available_memory() {
  const auto text = read_file("/proc/meminfo", kMostText);
  if (!text) return 0;
  constexpr std::string_view kName = "MemAvailable:";
  const size_t at = text->find(kName);
  if (at == std::string::npos) return 0;
  const uint64_t available = number_at(std::string_view(*text).substr(at + kName.size())) << 10;
  // The group's page cache counts as used, though it gives way; so the limit itself is what is compared.
  const uint64_t limit = group_number("memory.max");
  return limit == 0 ? available : std::min(available, limit);
}

}  // namespace millrace
