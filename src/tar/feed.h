// FeedReader: members from bytes as they arrive, for whoever is given chunks rather than asking for them.
//
//   reader.feed(chunk);
//   while (true) { auto event = reader.next(); if (event->kind == kNeedBytes) break; … }
//
// Data comes as views into the fed chunk; only a header that straddles two chunks is copied. Memory stays
// within one header group. Events' views are valid until the next call. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tar/parser.h"

namespace millrace::tar {

class FeedReader {
 public:
  enum class Kind { kMember, kPiece, kNeedBytes, kEnd };
  struct Event {
    Kind kind = Kind::kNeedBytes;
    const Member* member = nullptr;  // kMember
    std::string_view piece;          // kPiece: part of the current member's data
  };

  explicit FeedReader(std::string archive_name, Archives archives = Archives::kOne)
      : archive_name_(std::move(archive_name)), parser_(archives) {}

  // The chunk stays valid until next() answers kNeedBytes.
  void feed(std::string_view chunk);
  // No more chunks: next() now tells a proper end from a cut one.
  void finish() { finished_ = true; }

  Result<Event> next();
  uint64_t memory() const { return stash_.capacity(); }

 private:
  Result<Event> parse();
  Result<Event> at_end();
  Result<Event> pass_data();

  const std::string archive_name_;
  Parser parser_;
  std::string stash_;       // start of a header group whose rest has not arrived
  bool held_ = false;       // the stash is the last member's and goes with the next call
  std::string_view chunk_;  // what is left of the fed chunk
  std::string member_name_;
  uint64_t data_left_ = 0;
  uint64_t padding_left_ = 0;
  bool finished_ = false;
  bool ended_ = false;
};

}  // namespace millrace::tar
