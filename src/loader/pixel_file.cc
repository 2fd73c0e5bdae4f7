// Implements PixelFile: appends records and finds them again.
#include "loader/pixel_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/file_lock.h"
#include "base/hash.h"

namespace millrace::loader {

namespace {

// Another number wherever decoding or the format changes: what older versions left is then not found.
constexpr uint64_t kMagic = 0x3130'4c58'5052'4d0a;
constexpr int kMostFiles = 256;  // of the same data: processes of one machine

// As it lies in the file, in the machine's byte order: no other machine reads it.
struct Head {
  uint64_t magic;
  uint64_t identity;
  uint64_t ordinal;
  uint32_t shard;
  uint32_t field;
  uint32_t width;
  uint32_t height;
  uint64_t channels;
  uint64_t pixels_hash;
  uint64_t head_hash;  // of all before
};
static_assert(sizeof(Head) == 64);
constexpr uint64_t kAlignment = sizeof(Head);

std::string_view bytes_of(const Head& head) {
  return {reinterpret_cast<const char*>(&head), sizeof head};
}

std::string_view bytes_of(const decode::Pixels& pixels) {
  return {reinterpret_cast<const char*>(pixels.row(0)), pixels.byte_count()};
}

uint64_t hash_of(const Head& head) {
  return hash64(bytes_of(head).substr(0, offsetof(Head, head_hash)));
}

uint64_t record_bytes(uint64_t pixels) {
  return (sizeof(Head) + pixels + kAlignment - 1) / kAlignment * kAlignment;
}

std::optional<PixelRecord> parse_head(std::string_view file, uint64_t offset, uint64_t identity) {
  if (file.size() - offset < sizeof(Head)) return std::nullopt;
  Head head{};
  std::memcpy(&head, file.data() + offset, sizeof head);
  if (head.magic != kMagic || head.identity != identity || head.head_hash != hash_of(head))
    return std::nullopt;
  if (head.channels != 1 && head.channels != 3 && head.channels != 4) return std::nullopt;
  // Sides of 16 bits are more than any decoder gives; products of larger ones would have to be watched.
  if (head.width == 0 || head.height == 0 || head.width > UINT16_MAX || head.height > UINT16_MAX)
    return std::nullopt;
  PixelRecord record;
  record.sample = {head.shard, head.ordinal};
  record.field = head.field;
  record.size = {head.width, head.height};
  record.channels = static_cast<decode::Channels>(head.channels);
  record.pixels_hash = head.pixels_hash;
  record.pixels_offset = offset + sizeof(Head);
  if (file.size() - record.pixels_offset < record.pixels_bytes()) return std::nullopt;
  return record;
}

}  // namespace

std::vector<PixelRecord> parse_pixel_records(std::string_view file, uint64_t identity) {
  std::vector<PixelRecord> records;
  uint64_t offset = 0;
  while (offset < file.size()) {
    const auto record = parse_head(file, offset, identity);
    if (!record) break;
    records.push_back(*record);
    offset += record_bytes(record->pixels_bytes());
  }
  return records;
}

Result<std::unique_ptr<PixelFile>> PixelFile::open(const Options& options) {
  std::unique_ptr<PixelFile> file(new PixelFile(options));
  auto opened = file->take_file();
  if (opened) opened = file->map_and_read();
  if (!opened) return opened.take_error().within("decoded images in " + options.directory);
  return file;
}

PixelFile::~PixelFile() {
  if (mapping_ != nullptr) ::munmap(mapping_, options_.most_bytes);
}

// The first file of this data that no other process has.
Status PixelFile::take_file() {
  for (int number = 0; number < kMostFiles; ++number) {
    const std::string path =
        fmt::format("{}/{:016x}-{}.pixels", options_.directory, options_.identity, number);
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) return make_system_error(errno, "opening " + path);
    File file(descriptor, path);
    auto locked = try_lock(file);
    if (locked) {
      file_ = std::move(file);
      return {};
    }
    if (locked.error().code() != Code::kUnavailable) return locked.take_error();
  }
  return make_error(Code::kUnavailable, "{} processes keep images of this data there already", kMostFiles);
}

Status PixelFile::map_and_read() {
  // Longer than the file, which grows below it; only read through, and only where something was written, so
  // that no full drive can end the process by a signal.
  void* const mapped = ::mmap(nullptr, options_.most_bytes, PROT_READ, MAP_SHARED, file_.descriptor(), 0);
  if (mapped == MAP_FAILED) return make_system_error(errno, "mapping " + file_.name());
  mapping_ = static_cast<uint8_t*>(mapped);
  const uint64_t size = std::min(MR_TRY(file_.size()), options_.most_bytes);
  found_ = parse_pixel_records({reinterpret_cast<const char*>(mapping_), size}, options_.identity);
  if (!found_.empty())
    end_ = found_.back().pixels_offset - sizeof(Head) + record_bytes(found_.back().pixels_bytes());
  // What lies behind was torn.
  if (::ftruncate(file_.descriptor(), static_cast<off_t>(end_.load())) != 0)
    return make_system_error(errno, "cutting " + file_.name());
  return {};
}

const uint8_t* PixelFile::add(SampleRef sample, uint32_t field, const decode::Pixels& pixels) {
  const uint64_t size = record_bytes(pixels.byte_count());
  const uint64_t offset = end_.fetch_add(size);
  if (offset + size > options_.most_bytes) {
    end_ -= size;
    return nullptr;
  }
  Head head{kMagic,
            options_.identity,
            sample.ordinal,
            sample.shard,
            field,
            pixels.size().width,
            pixels.size().height,
            decode::count(pixels.channels()),
            hash64(bytes_of(pixels)),
            0};
  head.head_hash = hash_of(head);
  // Pixels first: a head that is there mostly has them.
  if (!file_.write_at(offset + sizeof head, bytes_of(pixels))) return nullptr;
  if (!file_.write_at(offset, bytes_of(head))) return nullptr;
  return mapping_ + offset + sizeof head;
}

}  // namespace millrace::loader
