// Names of compressions, and the sinks that compress.
#include "tar/compress.h"

#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <vector>

namespace millrace::tar {

namespace {

constexpr size_t kOutputBytes = 256 << 10;

class GzipSink final : public ByteSink {
 public:
  explicit GzipSink(ByteSink& compressed)
      : compressed_(compressed), level_memory_(ISAL_DEF_LVL1_DEFAULT), output_(kOutputBytes) {
    isal_deflate_init(&stream_);
    stream_.level = 1;
    stream_.level_buf = level_memory_.data();
    stream_.level_buf_size = static_cast<uint32_t>(level_memory_.size());
    stream_.gzip_flag = IGZIP_GZIP;
  }

  Status write(std::string_view bytes) override {
    constexpr size_t kStep = 1 << 30;
    while (!bytes.empty()) {
      const std::string_view step = bytes.substr(0, kStep);
      MR_TRY(deflate(step));
      bytes.remove_prefix(step.size());
    }
    return {};
  }

  Status finish() override {
    stream_.end_of_stream = 1;
    MR_TRY(deflate({}));
    return compressed_.finish();
  }

 private:
  Status deflate(std::string_view bytes) {
    stream_.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uint32_t>(bytes.size());
    do {
      stream_.next_out = output_.data();
      stream_.avail_out = static_cast<uint32_t>(output_.size());
      const int code = isal_deflate(&stream_);
      MR_ASSERT(code == COMP_OK, code);
      const size_t made = output_.size() - stream_.avail_out;
      MR_TRY(compressed_.write(std::string_view(reinterpret_cast<const char*>(output_.data()), made)));
    } while (stream_.avail_out == 0);
    return {};
  }

  ByteSink& compressed_;
  isal_zstream stream_ = {};
  std::vector<uint8_t> level_memory_;
  std::vector<uint8_t> output_;
};

class ZstdSink final : public ByteSink {
 public:
  explicit ZstdSink(ByteSink& compressed)
      : compressed_(compressed), context_(ZSTD_createCCtx()), output_(kOutputBytes) {
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, 3);
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
  }

  Status write(std::string_view bytes) override { return pass(bytes, ZSTD_e_continue); }

  Status finish() override {
    MR_TRY(pass({}, ZSTD_e_end));
    return compressed_.finish();
  }

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };

  Status pass(std::string_view bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer input = {bytes.data(), bytes.size(), 0};
    while (true) {
      ZSTD_outBuffer output = {output_.data(), output_.size(), 0};
      const size_t left = ZSTD_compressStream2(context_.get(), &output, &input, directive);
      MR_ASSERT(ZSTD_isError(left) == 0, ZSTD_getErrorName(left));
      MR_TRY(compressed_.write(std::string_view(output_.data(), output.pos)));
      const bool done = directive == ZSTD_e_end ? left == 0 : input.pos == input.size;
      if (done) return {};
    }
  }

  ByteSink& compressed_;
  std::unique_ptr<ZSTD_CCtx, Free> context_;
  std::vector<char> output_;
};

class PlainSink final : public ByteSink {
 public:
  explicit PlainSink(ByteSink& sink) : sink_(sink) {}
  Status write(std::string_view bytes) override { return sink_.write(bytes); }
  Status write(std::string_view first, std::string_view second) override {
    return sink_.write(first, second);
  }
  Status finish() override { return sink_.finish(); }

 private:
  ByteSink& sink_;
};

}  // namespace

Compression recognise_compression(std::string_view start) {
  using namespace std::literals;
  if (start.starts_with("\x1f\x8b"sv)) return Compression::kGzip;
  if (start.starts_with("\x28\xb5\x2f\xfd"sv)) return Compression::kZstd;
  // A zstd stream may open with a skippable frame (as pzstd writes).
  if (start.size() >= 4 && (start[0] & 0xf0) == 0x50 && start.substr(1, 3) == "\x2a\x4d\x18"sv)
    return Compression::kZstd;
  if (start.size() >= 4 && start.starts_with("BZh"sv) && start[3] >= '1' && start[3] <= '9')
    return Compression::kBzip2;
  if (start.starts_with("\xfd"
                        "7zXZ\0"sv)) {
    return Compression::kXz;
  }
  return Compression::kNone;
}

Compression compression_for_name(std::string_view name) {
  if (name.ends_with(".tgz") || name.ends_with(".tar.gz")) return Compression::kGzip;
  if (name.ends_with(".tar.zst") || name.ends_with(".tzst")) return Compression::kZstd;
  return Compression::kNone;
}

std::string_view compression_name(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZstd:
      return "zstd";
    case Compression::kBzip2:
      return "bzip2";
    case Compression::kXz:
      return "xz";
  }
  return "none";
}

Result<Compression> parse_output_compression(std::string_view text) {
  if (text == "none") return Compression::kNone;
  if (text == "gzip" || text == "gz") return Compression::kGzip;
  if (text == "zstd" || text == "zst") return Compression::kZstd;
  return make_error(Code::kInvalid, "unknown compression \"{}\"", text).with_hint("use none, gzip or zstd");
}

Result<std::unique_ptr<ByteSink>> make_compressor(Compression compression, ByteSink& compressed) {
  std::unique_ptr<ByteSink> sink;
  switch (compression) {
    case Compression::kNone:
      sink = std::make_unique<PlainSink>(compressed);
      break;
    case Compression::kGzip:
      sink = std::make_unique<GzipSink>(compressed);
      break;
    case Compression::kZstd:
      sink = std::make_unique<ZstdSink>(compressed);
      break;
    default:
      return make_error(Code::kUnsupported, "writing {} is not supported", compression_name(compression))
          .with_hint("write plain, gzip or zstd");
  }
  return sink;
}

}  // namespace millrace::tar
