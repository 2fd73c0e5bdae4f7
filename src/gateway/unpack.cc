// Reads the tar inside a stored object, and keeps its decompressor for the next range.
#include "gateway/unpack.h"

#include <algorithm>
#include <span>

#include "store/waiting.h"

namespace millrace::gateway {

namespace {

constexpr size_t kReadBytes = 256 << 10;

}  // namespace

// The bytes of an object as they are stored.
class Unpacker::StoredBytes final : public tar::ByteSource {
 public:
  StoredBytes(store::Objects& objects, const store::ObjectPointer& object)
      : reader_(objects, object), size_(object->record().size) {}

  Result<size_t> read_some(std::span<std::byte> into) override {
    const size_t got = MR_TRY(reader_.read(at_, into.first(std::min(into.size(), kReadBytes))));
    at_ += got;
    return got;
  }
  Result<uint64_t> skip(uint64_t bytes) override {
    const uint64_t pass = std::min(bytes, size_ - at_);
    at_ += pass;
    return pass;
  }

 private:
  store::WaitingReader reader_;
  const uint64_t size_;
  uint64_t at_ = 0;
};

// What is left of a range.
class Unpacker::Part final : public tar::ByteSource {
 public:
  Part(tar::ByteSource& whole, uint64_t& at, uint64_t end) : whole_(whole), at_(at), end_(end) {}

  Result<size_t> read_some(std::span<std::byte> into) override {
    const size_t got = MR_TRY(whole_.read_some(into.first(std::min<uint64_t>(into.size(), end_ - at_))));
    at_ += got;
    return got;
  }
  Result<uint64_t> skip(uint64_t bytes) override {
    const uint64_t passed = MR_TRY(whole_.skip(std::min(bytes, end_ - at_)));
    at_ += passed;
    return passed;
  }

 private:
  tar::ByteSource& whole_;
  uint64_t& at_;  // the unpacker's
  const uint64_t end_;
};

Unpacker::Unpacker(store::Objects& objects, Budget& memory) : objects_(objects), memory_(memory) {}
Unpacker::~Unpacker() = default;

Result<tar::ByteSource*> Unpacker::open(const TarRange& range) {
  if (object_ != range.object || range.offset < at_) {
    part_.reset();
    plain_.reset();
    charge_ = Charge();
    object_ = range.object;
    stored_ = std::make_unique<StoredBytes>(objects_, object_);
    at_ = 0;
    if (range.compression != tar::Compression::kNone)
      plain_ = MR_TRY(tar::make_decompressor(range.compression, *stored_, object_->key()));
  }
  tar::ByteSource& whole = plain_ ? *plain_ : *stored_;
  MR_TRY(charge());
  at_ += MR_TRY(whole.skip(range.offset - at_));
  MR_TRY(charge());
  if (at_ < range.offset)
    return make_error(Code::kTruncated, "{} ends before byte {}", object_->key(), range.offset);
  part_ = std::make_unique<Part>(whole, at_, range.offset + range.size);
  return part_.get();
}

Status Unpacker::charge() {
  const uint64_t wanted = kChunkBytes + (plain_ ? plain_->memory() : 0);
  if (charge_.try_grow(memory_, wanted)) return {};
  return make_error(Code::kUnavailable, "there is no memory to unpack {} now", object_->key());
}

Result<std::string> Unpacker::read(const TarRange& range) {
  tar::ByteSource* const source = MR_TRY(open(range));
  std::string bytes(std::min(range.size, kChunkBytes), 0);
  for (size_t have = 0; have < bytes.size();) {
    const size_t got = MR_TRY(source->read_some(std::as_writable_bytes(std::span(bytes)).subspan(have)));
    if (got == 0)
      return make_error(Code::kTruncated, "{} ends before byte {}", object_->key(),
                        range.offset + range.size);
    have += got;
  }
  return bytes;
}

}  // namespace millrace::gateway
