// Reads objects on a thread that may block, extent by extent.
#include "store/waiting.h"

#include <algorithm>
#include <cstring>

namespace millrace::store {

Result<size_t> fill_some(Writer& writer, std::string_view bytes) {
  size_t filled = 0;
  while (filled < bytes.size()) {
    const std::span<std::byte> space = writer.space();
    if (space.empty()) break;
    const size_t now = std::min(space.size(), bytes.size() - filled);
    std::memcpy(space.data(), bytes.data() + filled, now);
    MR_TRY(writer.advance(now));
    filled += now;
  }
  return filled;
}

Status fill(Writer& writer, std::string_view bytes) {
  while (true) {
    bytes.remove_prefix(MR_TRY(fill_some(writer, bytes)));
    if (bytes.empty()) return {};
    // Shared: the one who waits may be gone before set_value has returned.
    auto ready = std::make_shared<std::promise<void>>();
    writer.when_space([ready] { ready->set_value(); });
    ready->get_future().wait();
    MR_TRY(writer.advance(0));
  }
}

Status copy_bytes(const Extent& extent, uint64_t within, std::span<std::byte> into) {
  if (extent.file != nullptr) return extent.file->read_exactly(extent.offset + within, into);
  std::memcpy(into.data(), extent.bytes().data() + within, into.size());
  return {};
}

WaitingReader::WaitingReader(Objects& objects, ObjectPointer object, Comparing comparing)
    : object_(std::move(object)),
      reader_(object_->is_inline() ? nullptr : objects.open(object_, comparing)) {}

// Only what is asked for: damage behind it is not this reader's.
Status WaitingReader::bring(uint64_t offset, uint64_t size) {
  if (offset >= begin_ && offset - begin_ < extent_.size) return {};
  // Never what is merely ready: that may have been compared a moment before the file was damaged.
  extent_ =
      MR_TRY(wait_for<Extent>([&](Done<Extent> done) { reader_->prepare(offset, size, std::move(done)); }));
  begin_ = offset;
  return {};
}

Result<size_t> WaitingReader::read(uint64_t offset, std::span<std::byte> into) {
  const uint64_t all = object_->record().size;
  if (offset > all) {
    return make_error(Code::kInvalid, "{}/{}: offset {} is beyond its end", object_->bucket(), object_->key(),
                      offset);
  }
  into = into.first(std::min<uint64_t>(into.size(), all - offset));
  if (object_->is_inline()) {
    std::memcpy(into.data(), object_->inline_bytes().data() + offset, into.size());
    return into.size();
  }
  for (size_t done = 0; done < into.size();) {
    MR_TRY(bring(offset + done, into.size() - done));
    const uint64_t within = offset + done - begin_;
    const std::span<std::byte> now =
        into.subspan(done, std::min<uint64_t>(into.size() - done, extent_.size - within));
    MR_TRY(copy_bytes(extent_, within, now));
    done += now.size();
  }
  return into.size();
}

Result<std::string> WaitingReader::read(uint64_t offset, uint64_t size) {
  const uint64_t all = object_->record().size;
  std::string bytes(offset > all ? 0 : std::min(size, all - offset), '\0');
  MR_TRY(read(offset, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

}  // namespace millrace::store
