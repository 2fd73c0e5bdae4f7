// The text of x-millrace-where, and which holder a byte belongs to.
#include "net/where.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/number.h"
#include "net/url.h"

namespace millrace::net {

namespace {

constexpr std::string_view kAway = "-";

// A host and a port, and nothing that would mean something else in an address.
bool is_place(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.find_first_of("/?#@ ") != std::string_view::npos) return false;
  const auto url = parse_url("http://" + std::string(text));
  return url && !url->host.empty() && url->port != 0 && url->path == "/";
}

}  // namespace

std::string Where::text() const {
  std::string list;
  for (const std::string& holder : holders) {
    if (!list.empty()) list += ',';
    list += holder.empty() ? kAway : std::string_view(holder);
  }
  return fmt::format("{}+{} {} {}", k, m, cell, list);
}

std::optional<uint64_t> Where::cell_end(uint64_t offset) const {
  if (k == 1 || offset / cell >= UINT64_MAX / cell) return std::nullopt;
  return (offset / cell + 1) * cell;
}

std::vector<std::string> Where::holders_of(uint64_t offset) const {
  std::vector<std::string> found;
  if (k > 1) {
    const uint64_t slot = offset / cell % k;
    if (slot < holders.size() && !holders[slot].empty()) found.push_back(holders[slot]);
    return found;
  }
  for (size_t i = 0; i < holders.size(); ++i) {
    const std::string& holder = holders[(offset / cell + i) % holders.size()];
    if (!holder.empty()) found.push_back(holder);
  }
  return found;
}

std::optional<Where> parse_where(std::string_view text) {
  Where where;
  const auto k = take_number<unsigned>(text);
  if (!k || *k == 0 || *k > kMaxHolders || !text.starts_with('+')) return std::nullopt;
  text.remove_prefix(1);
  const auto m = take_number<unsigned>(text);
  if (!m || *k + *m > kMaxHolders || !text.starts_with(' ')) return std::nullopt;
  text.remove_prefix(1);
  const auto cell = take_number<uint64_t>(text);
  if (!cell || *cell == 0 || !text.starts_with(' ')) return std::nullopt;
  text.remove_prefix(1);
  where.k = *k;
  where.m = *m;
  where.cell = *cell;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view holder = text.substr(0, comma);
    if (where.holders.size() == *k + *m || (holder != kAway && !is_place(holder))) return std::nullopt;
    where.holders.emplace_back(holder == kAway ? "" : holder);
    if (comma == text.size()) return where;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::string> parse_nodes(std::string_view text) {
  std::vector<std::string> nodes;
  while (nodes.size() < kMaxHolders) {
    const size_t comma = std::min(text.find(','), text.size());
    if (!is_place(text.substr(0, comma))) return {};
    nodes.emplace_back(text.substr(0, comma));
    if (comma == text.size()) break;
    text.remove_prefix(comma + 1);
  }
  return nodes;
}

}  // namespace millrace::net
