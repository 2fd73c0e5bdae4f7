// Decides whether a host is this node, a bucket of it, or neither.
#include "gateway/host_name.h"

#include <unistd.h>

#include <algorithm>

#include "base/text.h"

namespace millrace::gateway {

namespace {

bool is_address(std::string_view host) {
  return host.starts_with('[') || host.find_first_not_of("0123456789.") == std::string_view::npos;
}

std::string machine_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return {};
  return lower_case(name);
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

}  // namespace

HostNames::HostNames(std::vector<std::string> domains)
    : domains_(std::move(domains)), machine_(machine_name()) {
  for (std::string& domain : domains_) domain = lower_case(domain);
  // The longest that fits counts.
  std::ranges::sort(domains_, std::greater(), &std::string::size);
}

HostName HostNames::find(std::string_view host) const {
  host = host.substr(0, host.starts_with('[') ? host.find(']') + 1 : host.find(':'));
  if (is_address(host)) return {};
  const std::string lower = lower_case(host.ends_with('.') ? host.substr(0, host.size() - 1) : host);
  if (lower == "localhost" || lower == machine_) return {};
  if (std::ranges::find(domains_, lower) != domains_.end()) return {};
  for (const std::string& domain : domains_) {
    if (lower.size() <= domain.size() + 1 || !lower.ends_with(domain)) continue;
    const size_t dot = lower.size() - domain.size() - 1;
    if (lower[dot] == '.') return {HostName::Kind::kBucket, lower.substr(0, dot)};
  }
  const bool dotted = lower.find('.') != std::string::npos;
  return {dotted ? HostName::Kind::kForeign : HostName::Kind::kShort, ""};
}

Status check_domains(const std::vector<std::string>& domains) {
  for (const std::string& domain : domains) {
    const std::string lower = lower_case(domain);
    if (!lower.empty() && std::ranges::all_of(lower, is_name_character) && lower.front() != '.' &&
        lower.back() != '.' && !is_address(lower))
      continue;
    return make_error(Code::kInvalid, "domains has \"{}\": it must be the name of a host, without a port",
                      printable(domain, 80))
        .with_hint("--set domains=localhost,store.example.com");
  }
  return {};
}

}  // namespace millrace::gateway
