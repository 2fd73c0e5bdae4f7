// The sources that decompress. Each keeps a buffer of compressed input and fills the buffer it is given.
#include <bzlib.h>
#include <isa-l/igzip_lib.h>
#include <lzma.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

#include "tar/compress.h"
#include "tar/format.h"

namespace millrace::tar {

namespace {

constexpr size_t kInputBytes = 256 << 10;
constexpr uint64_t kFixedBytes = 4 << 20;

// What the four have in common: input at hand, position for errors, and the end.
class Decompressor : public ByteSource {
 public:
  Decompressor(ByteSource& compressed, std::string what)
      : compressed_(compressed), what_(std::move(what)), buffer_(kInputBytes) {}

  Result<size_t> read_some(std::span<std::byte> into) final {
    if (into.empty() || ended_) return size_t{0};
    while (true) {
      if (input_.empty() && !input_ended_) MR_TRY(refill());
      if (input_.empty() && between_streams_) {
        ended_ = true;
        return size_t{0};
      }
      const size_t made = MR_TRY(decode(into));
      if (made > 0) return made;
      if (input_.empty() && input_ended_ && !between_streams_) {
        return make_error(Code::kTruncated, "{}: the compressed stream ends early, at byte {}", what_,
                          consumed_)
            .with_hint("the file is incomplete: copy or write it again");
      }
      if (ended_) return size_t{0};
    }
  }

  Result<uint64_t> skip(uint64_t bytes) final { return skip_by_reading(*this, bytes); }
  // Input, and the fixed windows of gzip and bzip2.
  uint64_t memory() const override { return kInputBytes + kFixedBytes; }

 protected:
  // Decodes from input_ into `into`; 0 when more input is needed or a stream has just ended.
  virtual Result<size_t> decode(std::span<std::byte> into) = 0;

  void consume(size_t bytes) {
    input_.remove_prefix(bytes);
    consumed_ += bytes;
    if (bytes > 0) between_streams_ = false;
  }
  Error damaged(std::string_view why) const {
    return make_error(Code::kCorrupt, "{}: compressed data is damaged near byte {}: {}", what_, consumed_,
                      why);
  }
  // Padding of zeros behind the last stream is common on tape and block devices.
  void end_of_stream() { between_streams_ = true; }
  bool between_streams() const { return between_streams_; }
  void end() { ended_ = true; }
  bool last_input() const { return input_ended_; }

  std::string_view input_;

 private:
  Status refill() {
    const size_t got = MR_TRY(compressed_.read_some(buffer_));
    input_ = {reinterpret_cast<const char*>(buffer_.data()), got};
    input_ended_ = got == 0;
    return {};
  }

  ByteSource& compressed_;
  const std::string what_;
  std::vector<std::byte> buffer_;
  uint64_t consumed_ = 0;
  bool input_ended_ = false;
  bool between_streams_ = false;
  bool ended_ = false;
};

uint8_t* bytes_of(std::span<std::byte> span) {
  return reinterpret_cast<uint8_t*>(span.data());
}
uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
}

class GzipSource final : public Decompressor {
 public:
  GzipSource(ByteSource& compressed, const std::string& name) : Decompressor(compressed, name + " (gzip)") {
    start();
  }

 protected:
  Result<size_t> decode(std::span<std::byte> into) override {
    if (between_streams()) {
      while (!input_.empty() && input_[0] == 0) {
        input_.remove_prefix(1);
      }
      if (input_.empty()) return size_t{0};
      start();
    }
    MR_TRY(read_header());
    if (part_ != Part::kData) return size_t{0};
    state_.next_in = bytes_of(input_);
    state_.avail_in = static_cast<uint32_t>(input_.size());
    state_.next_out = bytes_of(into);
    state_.avail_out = static_cast<uint32_t>(std::min<size_t>(into.size(), 1 << 30));
    const uint32_t room = state_.avail_out;
    const int code = isal_inflate(&state_);
    // On damage ISA-L may count a few bytes more than it was given.
    consume(input_.size() - std::min<size_t>(state_.avail_in, input_.size()));
    if (code < 0) return damaged(reason(code));
    if (state_.block_state == ISAL_BLOCK_FINISH) end_of_stream();
    return room - state_.avail_out;
  }

 private:
  enum class Part { kFixed, kExtraSize, kExtra, kName, kComment, kChecksum, kData };

  void start() {
    isal_inflate_init(&state_);
    state_.crc_flag = ISAL_GZIP_NO_HDR_VER;
    part_ = Part::kFixed;
    part_bytes_ = 0;
    flags_ = 0;
    extra_bytes_ = 0;
  }

  // ISA-L reads headers too, but forgets the flags of one that is split over two reads.
  Status read_header() {
    while (!input_.empty() && part_ != Part::kData) {
      const auto byte = static_cast<uint8_t>(input_[0]);
      consume(1);
      ++part_bytes_;
      switch (part_) {
        case Part::kFixed:
          MR_TRY(read_fixed(byte));
          break;
        case Part::kExtraSize:
          extra_bytes_ |= static_cast<uint32_t>(byte) << (8 * (part_bytes_ - 1));
          if (part_bytes_ == 2) next_part();
          break;
        case Part::kExtra:
          if (part_bytes_ == extra_bytes_) next_part();
          break;
        case Part::kName:
        case Part::kComment:
          if (byte == 0) next_part();
          break;
        case Part::kChecksum:
          if (part_bytes_ == 2) next_part();
          break;
        case Part::kData:
          break;
      }
    }
    return {};
  }

  Status read_fixed(uint8_t byte) {
    constexpr uint8_t kUnknownFlags = 0xe0;
    if ((part_bytes_ == 1 && byte != 0x1f) || (part_bytes_ == 2 && byte != 0x8b))
      return damaged("not a gzip header");
    if (part_bytes_ == 3 && byte != 8) return damaged("unknown method");
    if (part_bytes_ == 4) {
      if ((byte & kUnknownFlags) != 0) return damaged("unknown header flags");
      flags_ = byte;
    }
    if (part_bytes_ == 10) next_part();
    return {};
  }

  bool has_part(Part part) const {
    switch (part) {
      case Part::kExtraSize:
        return (flags_ & 4) != 0;
      case Part::kExtra:
        return extra_bytes_ > 0;
      case Part::kName:
        return (flags_ & 8) != 0;
      case Part::kComment:
        return (flags_ & 16) != 0;
      case Part::kChecksum:
        return (flags_ & 2) != 0;
      default:
        return true;
    }
  }

  void next_part() {
    part_bytes_ = 0;
    do {
      part_ = static_cast<Part>(static_cast<int>(part_) + 1);
    } while (!has_part(part_));
  }

  static std::string_view reason(int code) {
    switch (code) {
      case ISAL_INVALID_BLOCK:
        return "invalid block";
      case ISAL_INVALID_SYMBOL:
        return "invalid symbol";
      case ISAL_INVALID_LOOKBACK:
        return "reference before the start";
      case ISAL_INCORRECT_CHECKSUM:
        return "checksum does not match";
      default:
        return "invalid data";
    }
  }

  inflate_state state_;
  Part part_ = Part::kFixed;
  uint64_t part_bytes_ = 0;  // of this part, so far
  uint8_t flags_ = 0;
  uint32_t extra_bytes_ = 0;
};

class ZstdSource final : public Decompressor {
 public:
  ZstdSource(ByteSource& compressed, const std::string& name)
      : Decompressor(compressed, name + " (zstd)"), context_(ZSTD_createDCtx()) {}

 protected:
  Result<size_t> decode(std::span<std::byte> into) override {
    ZSTD_inBuffer input = {input_.data(), input_.size(), 0};
    ZSTD_outBuffer output = {into.data(), into.size(), 0};
    const size_t left = ZSTD_decompressStream(context_.get(), &output, &input);
    consume(input.pos);
    if (ZSTD_isError(left) != 0) return damaged(ZSTD_getErrorName(left));
    if (left == 0) end_of_stream();
    return output.pos;
  }
  uint64_t memory() const override { return Decompressor::memory() + ZSTD_sizeof_DCtx(context_.get()); }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context_;
};

class Bzip2Source final : public Decompressor {
 public:
  Bzip2Source(ByteSource& compressed, const std::string& name) : Decompressor(compressed, name + " (bzip2)") {
    BZ2_bzDecompressInit(&stream_, 0, 0);
  }
  ~Bzip2Source() override { BZ2_bzDecompressEnd(&stream_); }

 protected:
  Result<size_t> decode(std::span<std::byte> into) override {
    if (between_streams()) {
      BZ2_bzDecompressEnd(&stream_);
      stream_ = {};
      BZ2_bzDecompressInit(&stream_, 0, 0);
    }
    stream_.next_in = const_cast<char*>(input_.data());
    stream_.avail_in = static_cast<unsigned>(input_.size());
    stream_.next_out = reinterpret_cast<char*>(into.data());
    stream_.avail_out = static_cast<unsigned>(std::min<size_t>(into.size(), 1 << 30));
    const unsigned room = stream_.avail_out;
    const int code = BZ2_bzDecompress(&stream_);
    consume(input_.size() - stream_.avail_in);
    if (code == BZ_STREAM_END) {
      end_of_stream();
    } else if (code != BZ_OK) {
      return damaged(code == BZ_DATA_ERROR ? "checksum does not match" : "invalid data");
    }
    return room - stream_.avail_out;
  }

 private:
  bz_stream stream_ = {};
};

class XzSource final : public Decompressor {
 public:
  XzSource(ByteSource& compressed, const std::string& name) : Decompressor(compressed, name + " (xz)") {
    // A bound on the dictionary: xz -9 wants 65 MiB.
    constexpr uint64_t kMostMemory = 1 << 30;
    const lzma_ret code = lzma_stream_decoder(&stream_, kMostMemory, LZMA_CONCATENATED);
    MR_ASSERT(code == LZMA_OK, static_cast<int>(code));
  }
  ~XzSource() override { lzma_end(&stream_); }

 protected:
  Result<size_t> decode(std::span<std::byte> into) override {
    stream_.next_in = bytes_of(input_);
    stream_.avail_in = input_.size();
    stream_.next_out = bytes_of(into);
    stream_.avail_out = into.size();
    const lzma_ret code = lzma_code(&stream_, last_input() ? LZMA_FINISH : LZMA_RUN);
    consume(input_.size() - stream_.avail_in);
    if (code == LZMA_STREAM_END) {
      end_of_stream();
      end();
    } else if (code == LZMA_MEMLIMIT_ERROR) {
      return damaged("it wants more than 1 GiB of memory");
    } else if (code != LZMA_OK && code != LZMA_BUF_ERROR) {
      return damaged(code == LZMA_DATA_ERROR ? "checksum does not match" : "invalid data");
    }
    return into.size() - stream_.avail_out;
  }
  uint64_t memory() const override { return Decompressor::memory() + lzma_memusage(&stream_); }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> make_decompressor(Compression compression, ByteSource& compressed,
                                                      const std::string& name) {
  std::unique_ptr<ByteSource> source;
  switch (compression) {
    case Compression::kGzip:
      source = std::make_unique<GzipSource>(compressed, name);
      break;
    case Compression::kZstd:
      source = std::make_unique<ZstdSource>(compressed, name);
      break;
    case Compression::kBzip2:
      source = std::make_unique<Bzip2Source>(compressed, name);
      break;
    case Compression::kXz:
      source = std::make_unique<XzSource>(compressed, name);
      break;
    case Compression::kNone:
      return make_error(Code::kInvalid, "{} is not compressed", name);
  }
  return source;
}

}  // namespace millrace::tar
