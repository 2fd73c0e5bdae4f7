// Bytes: some bytes that do not change, held by all who use them. A copy shares them.
//
// They are a string's, or lie in memory that somebody else filled (base/blocks.h). Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace millrace {

class Bytes {
 public:
  Bytes() = default;
  Bytes(std::string text) {
    auto kept = std::make_shared<const std::string>(std::move(text));
    view_ = *kept;
    owner_ = std::move(kept);
  }
  Bytes(const char* text) : Bytes(std::string(text)) {}
  // The owner keeps what the view shows.
  Bytes(std::shared_ptr<const void> owner, std::string_view view) : owner_(std::move(owner)), view_(view) {}

  std::string_view view() const { return view_; }
  operator std::string_view() const { return view_; }
  const char* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }

  // Some of these bytes, given by a view of them.
  Bytes part(std::string_view of_these) const { return {owner_, of_these}; }

 private:
  std::shared_ptr<const void> owner_;
  std::string_view view_;
};

}  // namespace millrace
