// MemberReader: the members of an archive, one after the other, over any Window.
//
// Over a MappedWindow nothing is copied; over a StreamWindow members of any size pass through a bounded
// buffer. Errors name the archive, the member and the byte. Views are valid until the next call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tar/parser.h"
#include "tar/window.h"

namespace millrace::tar {

class MemberReader {
 public:
  MemberReader(Window& window, std::string archive_name, Archives archives = Archives::kOne)
      : window_(window), archive_name_(std::move(archive_name)), parser_(archives) {}

  // The next member, or null at the end of the archive. Data behind that end is an error; offset() is then
  // where it begins.
  Result<const Member*> next() { return next_keeping(parser_.offset()); }
  // The same, while the bytes from `keep` on stay in sight.
  Result<const Member*> next_keeping(uint64_t keep);

  // The whole of a stretch that is still in sight.
  Result<std::string_view> bytes(uint64_t offset, uint64_t size) {
    return bytes_keeping(offset, offset, size);
  }
  Result<std::string_view> bytes_keeping(uint64_t keep, uint64_t offset, uint64_t size);

  // The current member's data piece by piece, from its start; empty at its end.
  Result<std::string_view> next_piece();

  // Goes on at another header, forward only: how verify passes over damage.
  void jump(uint64_t offset);
  uint64_t offset() const { return parser_.offset(); }
  const std::string& archive_name() const { return archive_name_; }

 private:
  Error placed(Error error) const;
  Status check_tail();
  Status check_data_complete() const;
  Error data_cut(uint64_t wanted_end) const;

  Window& window_;
  const std::string archive_name_;
  Parser parser_;
  std::string member_name_;  // of the current member, for errors after its views are gone
  uint64_t data_at_ = 0;
  uint64_t data_end_ = 0;
  bool ended_ = false;
  bool tail_checked_ = false;
};

}  // namespace millrace::tar
