// Where: which host has which bytes of an object, as a cluster tells it in the header x-millrace-where. Of an
// object that no such text can describe, x-millrace-nodes names hosts that can be asked instead of each
// other.
//
//   x-millrace-where: 4+2 1048576 10.0.0.1:9400,10.0.0.2:9400,-,10.0.0.4:9400,10.0.0.5:9400,10.0.0.6:9400
//
// Redundancy k+m, the size of a cell, the holders in the order of slots; "-" is a holder that is away. Byte b
// of the object lies in cell b / cell, and cell n lies at data slot n mod k. If k is 1, every holder has all
// bytes. The header is advice: any host of the list answers for any byte. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::net {

inline constexpr std::string_view kWhereHeader = "x-millrace-where";
inline constexpr std::string_view kNodesHeader = "x-millrace-nodes";
inline constexpr size_t kMaxHolders = 64;
// In a query: who asks was sent here by another node, and is not to be sent on.
inline constexpr std::string_view kHopQuery = "x-millrace-hop";
// "yes": a redirect is followed although the request is signed. "no": it is not followed.
inline constexpr std::string_view kRedirectHeader = "x-millrace-redirect";

struct Where {
  unsigned k = 1;
  unsigned m = 0;
  uint64_t cell = 1;                 // not 0
  std::vector<std::string> holders;  // host:port; empty: away
  bool operator==(const Where&) const = default;

  std::string text() const;
  // The first byte behind the cell of this byte; of copies there is none.
  std::optional<uint64_t> cell_end(uint64_t offset) const;
  // Those that have this byte, best first. Copies take turns by cell, so that all of them are read.
  std::vector<std::string> holders_of(uint64_t offset) const;
};

// Nothing: it is not such a text.
std::optional<Where> parse_where(std::string_view text);

// "10.0.0.1:9400,10.0.0.2:9400". At most kMaxHolders; nothing where one of them is not host:port.
std::vector<std::string> parse_nodes(std::string_view text);

}  // namespace millrace::net
