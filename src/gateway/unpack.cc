// A decompressor that is kept for the next stretch.
#include "gateway/unpack.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace millrace::gateway {

namespace {

constexpr size_t kReadBytes = 256 << 10;

}  // namespace

// The bytes of an object as they are stored.
class Unpacker::StoredBytes final : public tar::ByteSource {
 public:
  StoredBytes(store::Store& store, const store::Object& object) : store_(store), object_(object) {}

  Result<size_t> read_some(std::span<std::byte> into) override {
    const uint64_t want = std::min<uint64_t>({into.size(), object_.record().size - at_, kReadBytes});
    if (want == 0) return size_t{0};
    const std::string bytes = MR_TRY(store_.read(object_, at_, want));
    std::memcpy(into.data(), bytes.data(), bytes.size());
    at_ += bytes.size();
    return bytes.size();
  }
  Result<uint64_t> skip(uint64_t bytes) override {
    const uint64_t pass = std::min(bytes, object_.record().size - at_);
    at_ += pass;
    return pass;
  }

 private:
  store::Store& store_;
  const store::Object& object_;
  uint64_t at_ = 0;
};

// What is left of a stretch.
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

Unpacker::Unpacker(store::Store& store) : store_(store) {}
Unpacker::~Unpacker() = default;

Result<tar::ByteSource*> Unpacker::open(const Stretch& stretch) {
  if (object_ != stretch.object || stretch.offset < at_) {
    part_.reset();
    plain_.reset();
    charge_ = Charge();
    object_ = stretch.object;
    stored_ = std::make_unique<StoredBytes>(store_, *object_);
    at_ = 0;
    if (stretch.compression != tar::Compression::kNone)
      plain_ = MR_TRY(tar::make_decompressor(stretch.compression, *stored_, object_->key()));
  }
  tar::ByteSource& whole = plain_ ? *plain_ : *stored_;
  MR_TRY(charge());
  at_ += MR_TRY(whole.skip(stretch.offset - at_));
  MR_TRY(charge());
  if (at_ < stretch.offset)
    return make_error(Code::kTruncated, "{} ends before byte {}", object_->key(), stretch.offset);
  part_ = std::make_unique<Part>(whole, at_, stretch.offset + stretch.size);
  return part_.get();
}

Status Unpacker::charge() {
  const uint64_t wanted = kChunkBytes + (plain_ ? plain_->memory() : 0);
  if (charge_.try_grow(store_.memory().work, wanted)) return {};
  return make_error(Code::kUnavailable, "there is no memory to unpack {} now", object_->key());
}

Result<std::string> Unpacker::read(const Stretch& stretch) {
  tar::ByteSource* const source = MR_TRY(open(stretch));
  std::string bytes(std::min(stretch.size, kChunkBytes), 0);
  for (size_t have = 0; have < bytes.size();) {
    const size_t got = MR_TRY(source->read_some(std::as_writable_bytes(std::span(bytes)).subspan(have)));
    if (got == 0)
      return make_error(Code::kTruncated, "{} ends before byte {}", object_->key(),
                        stretch.offset + stretch.size);
    have += got;
  }
  return bytes;
}

}  // namespace millrace::gateway
