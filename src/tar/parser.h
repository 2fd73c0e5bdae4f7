// Parser: the one place that understands tar headers. Everything that reads archives is built on it.
//
// It is shown a window of bytes that starts where the next header starts, and says what it found: a member,
// the end, or that it needs to see more. It keeps no bytes: on kNeedBytes the caller shows the same place
// again with more behind it. A Member's views live as long as the window (and until the next step).
//
// Invariant: offset() is always the byte where the next header begins; after a member it already points
// behind that member's data. One thread each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tar/format.h"
#include "tar/pax.h"

namespace millrace::tar {

enum class Archives {
  kOne,           // two zero blocks end the archive; anything but zeros behind them is an error
  kConcatenated,  // zero blocks are passed over; the input's end is the end
};

struct Member {
  std::string_view name;
  std::string_view link;
  const Header* header = nullptr;
  uint64_t size = 0;           // bytes of data in the archive
  uint64_t header_offset = 0;  // first block, extension headers included
  uint64_t data_offset = 0;
  bool is_file = false;  // a regular file
  bool is_directory = false;
  bool self_contained = true;  // copied alone its blocks mean the same: no global header acts on it
  const std::vector<PaxRecord>* pax = nullptr;  // its own extended records, known and unknown; may be null

  uint64_t end_offset() const { return data_offset + padded(size); }
  std::optional<int64_t> global_mtime;  // from a global header

  int64_t mtime_seconds() const;
  uint32_t permissions() const;
};

// What every reader says of an archive that ends inside a member's data or padding, or goes on behind its
// end.
Error cut_inside_member(std::string_view archive, std::string_view member, uint64_t at, uint64_t missing);
Error data_after_end(std::string_view archive, uint64_t at);

class Parser {
 public:
  enum class Found { kMember, kNeedBytes, kEnd };

  // Extension headers (long names, pax records) of one member above this, all together, are refused.
  static constexpr uint64_t kMaxExtension = 1 << 20;
  // More global pax records than this are refused: they are kept, and looked at for each member.
  static constexpr size_t kMaxGlobalRecords = 256;

  explicit Parser(Archives archives) : archives_(archives) {}

  // `window` starts at offset().
  Result<Found> step(std::string_view window);

  const Member& member() const { return member_; }
  uint64_t offset() const { return offset_; }
  // After kNeedBytes: how many bytes from offset() the next step must see, at least.
  uint64_t needed() const { return needed_; }

  // The input ended although step wanted more, with `have` bytes behind offset(). Says whether that is a
  // proper end, and if not, what is cut.
  Status at_end_of_input(uint64_t have) const;

  // Forgets what is pending and goes on at another header; global records stay.
  void jump(uint64_t offset);

 private:
  struct Pending;

  void prefetch_ahead(std::string_view window);
  Result<Found> zero_block(std::string_view window);
  Status extension(const Header& header, std::string_view body, Pending& pending);
  Status remember_global(const std::vector<PaxRecord>& records);
  Status accept(const Header& header, uint64_t at, Pending& pending);
  Status apply_pax(const std::vector<PaxRecord>& records, Pending& pending) const;

  const Archives archives_;
  uint64_t offset_ = 0;
  uint64_t needed_ = 0;
  bool after_end_blocks_ = false;
  uint64_t previous_offsets_[2] = {0, 0};
  Member member_;
  std::string joined_name_;
  std::vector<PaxRecord> own_records_;
  std::vector<std::pair<std::string, std::string>> global_records_;
};

}  // namespace millrace::tar
