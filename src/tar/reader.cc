// Implements MemberReader: walks the members of a window.
#include "tar/reader.h"

#include <algorithm>
#include <utility>

namespace millrace::tar {

Result<const Member*> MemberReader::next_keeping(uint64_t keep) {
  if (ended_) {
    if (!std::exchange(tail_checked_, true)) MR_TRY(check_tail());
    return nullptr;
  }
  const bool earlier_wanted = keep < parser_.offset();
  uint64_t want = kBlock;
  while (true) {
    const uint64_t at = parser_.offset();
    auto view = window_.view(std::min(keep, at), at, want);
    if (!view) return placed(view.take_error());
    const std::string_view bytes = view.take();
    if (bytes.empty()) MR_TRY(check_data_complete());
    auto found = parser_.step(bytes);
    if (!found) return placed(found.take_error());
    if (*found == Parser::Found::kMember) break;
    if (*found == Parser::Found::kEnd) {
      ended_ = true;
      // Looking at the tail lets go of what came before: not while somebody still wants it.
      return earlier_wanted ? Result<const Member*>(nullptr) : next_keeping(keep);
    }
    // step may have passed over zero blocks, so what is in sight is counted from where it stands now.
    const uint64_t have = bytes.size() - (parser_.offset() - at);
    if (bytes.size() < want) {
      auto end = parser_.at_end_of_input(have);
      if (!end) return placed(end.take_error());
      ended_ = true;
      tail_checked_ = true;
      return nullptr;
    }
    want = parser_.needed();
  }
  const Member& member = parser_.member();
  member_name_.assign(member.name);
  data_at_ = member.data_offset;
  data_end_ = member.data_offset + member.size;
  return &member;
}

// The next header is past the end of the archive: either it ended cleanly before, or inside data.
Status MemberReader::check_data_complete() const {
  if (window_.end() >= parser_.offset()) return {};
  return data_cut(data_end_);
}

Error MemberReader::data_cut(uint64_t wanted_end) const {
  const uint64_t end = window_.end();
  return cut_inside_member(archive_name_, member_name_, end, wanted_end > end ? wanted_end - end : 0);
}

// One archive only: what follows the end blocks may be padding, never data that nobody would see.
Status MemberReader::check_tail() {
  const uint64_t end = parser_.offset();
  uint64_t at = end;
  while (true) {
    auto view = window_.view(at, at, kBlock);
    if (!view) return placed(view.take_error());
    if (view->empty()) return {};
    if (!all_zero(*view)) {
      parser_.jump(at + view->find_first_not_of('\0') / kBlock * kBlock);
      return data_after_end(archive_name_, end);
    }
    at += view->size() < kBlock ? view->size() : view->size() / kBlock * kBlock;
  }
}

void MemberReader::jump(uint64_t offset) {
  parser_.jump(offset);
  ended_ = false;
  tail_checked_ = false;
}

Result<std::string_view> MemberReader::bytes_keeping(uint64_t keep, uint64_t offset, uint64_t size) {
  auto view = window_.view(keep, offset, size);
  if (!view) return placed(view.take_error());
  if (view->size() < size) return data_cut(offset + size);
  return view->substr(0, size);
}

Result<std::string_view> MemberReader::next_piece() {
  constexpr uint64_t kPiece = 256 << 10;
  if (data_at_ == data_end_) return std::string_view();
  auto view = window_.view(data_at_, data_at_, std::min(kPiece, data_end_ - data_at_));
  if (!view) return placed(view.take_error());
  if (view->empty()) return data_cut(data_end_);
  const std::string_view piece = view->substr(0, data_end_ - data_at_);
  data_at_ += piece.size();
  return piece;
}

Error MemberReader::placed(Error error) const {
  return std::move(error).within(archive_name_).at(member_name_, parser_.offset());
}

}  // namespace millrace::tar
