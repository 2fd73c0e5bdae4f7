// Implements FeedReader: headers from chunks of any size.
#include "tar/feed.h"

#include <algorithm>

namespace millrace::tar {

void FeedReader::feed(std::string_view chunk) {
  MR_ASSERT(chunk_.empty() && !finished_, chunk_.size());
  chunk_ = chunk;
}

Result<FeedReader::Event> FeedReader::next() {
  if (held_) {
    stash_.clear();
    held_ = false;
  }
  if (data_left_ > 0 || padding_left_ > 0) return pass_data();
  if (ended_) {
    if (!all_zero(chunk_)) return data_after_end(archive_name_, parser_.offset());
    chunk_ = {};
    return Event{finished_ ? Kind::kEnd : Kind::kNeedBytes, nullptr, {}};
  }
  return parse();
}

Result<FeedReader::Event> FeedReader::pass_data() {
  if (chunk_.empty() && finished_) {
    return cut_inside_member(archive_name_, member_name_, parser_.offset() - data_left_ - padding_left_,
                             data_left_);
  }
  if (chunk_.empty()) return Event{};
  if (data_left_ > 0) {
    const std::string_view piece = chunk_.substr(0, data_left_);
    chunk_.remove_prefix(piece.size());
    data_left_ -= piece.size();
    return Event{Kind::kPiece, nullptr, piece};
  }
  const uint64_t pass = std::min<uint64_t>(padding_left_, chunk_.size());
  chunk_.remove_prefix(pass);
  padding_left_ -= pass;
  return next();
}

Result<FeedReader::Event> FeedReader::parse() {
  while (true) {
    const bool stashed = !stash_.empty();
    const std::string_view window = stashed ? std::string_view(stash_) : chunk_;
    const uint64_t before = parser_.offset();
    auto found = parser_.step(window);
    if (!found) return found.take_error().within(archive_name_);
    if (*found == Parser::Found::kNeedBytes) {
      const uint64_t passed = parser_.offset() - before;
      if (stashed) {
        stash_.erase(0, passed);
      } else {
        chunk_.remove_prefix(passed);
      }
      const size_t lack = parser_.needed() - (stashed ? stash_.size() : 0);
      const std::string_view more = chunk_.substr(0, lack);
      if (more.empty()) return finished_ ? at_end() : Result<Event>(Event{});
      stash_.append(more);
      chunk_.remove_prefix(more.size());
      if (more.size() < lack && !finished_) return Event{};
      if (more.size() < lack) return at_end();
      continue;
    }
    const bool ended = *found == Parser::Found::kEnd;
    const uint64_t used = (ended ? parser_.offset() : parser_.member().data_offset) - before;
    if (stashed) {
      // needed() never asks for more than the header group, so the stash is used up exactly.
      MR_ASSERT(used == stash_.size(), used, stash_.size());
    } else {
      chunk_.remove_prefix(used);
    }
    if (ended) {
      stash_.clear();
      ended_ = true;
      return next();
    }
    const Member& member = parser_.member();
    member_name_.assign(member.name);
    data_left_ = member.size;
    padding_left_ = padded(member.size) - member.size;
    held_ = stashed;
    return Event{Kind::kMember, &member, {}};
  }
}

Result<FeedReader::Event> FeedReader::at_end() {
  auto end = parser_.at_end_of_input(stash_.size());
  if (!end) return end.take_error().within(archive_name_);
  ended_ = true;
  return Event{Kind::kEnd, nullptr, {}};
}

}  // namespace millrace::tar
