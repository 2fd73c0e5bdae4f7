// Implements StreamWindow: a buffer that slides over a stream.
#include "tar/window.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/units.h"

namespace millrace::tar {

namespace {
constexpr size_t kPage = 4096;
// Whoever passes over data wants headers: little is read behind a gap, more as long as there is none.
constexpr size_t kReadAfterSkip = 4096;

Result<PageMemory> make_page_memory(size_t bytes) {
  const size_t whole_pages = (bytes + kPage - 1) / kPage * kPage;
  PageMemory memory(static_cast<std::byte*>(std::aligned_alloc(kPage, whole_pages)));
  if (!memory) return make_error(Code::kTooLarge, "the system has no {} of memory left", format_bytes(bytes));
  return memory;
}

Error too_large_for_memory(uint64_t bytes, uint64_t at, uint64_t limit) {
  return make_error(Code::kTooLarge, "{} at byte {} must be in memory at once, the limit is {}",
                    format_bytes(bytes), at, format_bytes(limit))
      .with_hint("allow larger samples with --max-sample");
}

}  // namespace

Result<uint64_t> skip_by_reading(ByteSource& source, uint64_t bytes) {
  std::vector<std::byte> scratch(std::min<uint64_t>(bytes, 256 << 10));
  uint64_t done = 0;
  while (done < bytes) {
    const size_t step = std::min<uint64_t>(bytes - done, scratch.size());
    const size_t got = MR_TRY(source.read_some(std::span(scratch).first(step)));
    if (got == 0) break;
    done += got;
  }
  return done;
}

Result<std::string_view> MappedWindow::view(uint64_t keep, uint64_t at, uint64_t want) {
  MR_ASSERT(keep <= at, keep, at);
  static_cast<void>(want);
  return at >= archive_.size() ? std::string_view() : archive_.substr(at);
}

Result<std::string_view> StreamWindow::view(uint64_t keep, uint64_t at, uint64_t want) {
  MR_ASSERT(begin_ <= keep && keep <= at, begin_, keep, at);
  const uint64_t until = at + want;
  if (until > begin_ + filled_ && !at_end_) {
    if (keep > begin_ + filled_) {
      // Nothing in sight is wanted any more, nor is what lies between.
      const uint64_t gap = keep - begin_ - filled_;
      const uint64_t skipped = MR_TRY(source_.skip(gap));
      begin_ += filled_ + skipped;
      filled_ = 0;
      at_end_ = skipped < gap;
      read_bytes_ = kReadAfterSkip;
    }
    if (!at_end_) MR_TRY(make_room(keep, until));
    while (until > begin_ + filled_ && !at_end_) {
      // Grown as bytes arrive, never for what a header only claims.
      if (filled_ == capacity_) MR_TRY(grow());
      const std::span<std::byte> space(buffer_.get() + filled_, capacity_ - filled_);
      const size_t got = MR_TRY(source_.read_some(space.first(std::min(space.size(), read_bytes_))));
      read_bytes_ = std::min(2 * read_bytes_, kStartBytes);
      filled_ += got;
      at_end_ = got == 0;
    }
  }
  const uint64_t inside = at - begin_;
  if (inside >= filled_) return std::string_view();
  return std::string_view(reinterpret_cast<const char*>(buffer_.get()) + inside, filled_ - inside);
}

void FreePages::operator()(std::byte* memory) const {
  std::free(memory);
}

Status StreamWindow::make_room(uint64_t keep, uint64_t until) {
  if (until - keep > most_bytes_) return too_large_for_memory(until - keep, keep, most_bytes_);
  // Whole pages are dropped only, so that file and buffer stay aligned alike: the kernel copies up to a
  // third faster then.
  const size_t unwanted = std::min<uint64_t>(keep - begin_, filled_) / kPage * kPage;
  const size_t kept = filled_ - unwanted;
  if (unwanted > 0) std::memmove(buffer_.get(), buffer_.get() + unwanted, kept);
  begin_ += unwanted;
  filled_ = kept;
  return {};
}

Status StreamWindow::grow() {
  const size_t capacity = std::max(2 * capacity_, kStartBytes);
  PageMemory larger = MR_TRY(make_page_memory(capacity));
  if (filled_ > 0) std::memcpy(larger.get(), buffer_.get(), filled_);
  buffer_ = std::move(larger);
  capacity_ = capacity;
  return {};
}

}  // namespace millrace::tar
