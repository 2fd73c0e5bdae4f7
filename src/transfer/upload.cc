// Uploads a file in parts that threads take in turn.
#include "transfer/upload.h"

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "base/threads.h"
#include "net/digest.h"

namespace millrace::transfer {

namespace {

using net::DigestKind;

// One file in parts; what the store said of each is left in `parts_`.
class FileUpload {
 public:
  FileUpload(const File& file, uint64_t size, const Location& object, const TransferOptions& options)
      : file_(file), size_(size), object_(object), options_(options), part_bytes_(part_bytes_for(size)) {}

  Result<Transferred> run() {
    mapped_ = MR_TRY(MappedFile::map(file_));
    parts_.resize((size_ + part_bytes_ - 1) / part_bytes_);
    MR_TRY(begin());
    auto put_all = run_each(parts_.size(), options_.jobs, [this](size_t part) { return put(part); });
    if (!put_all) {
      return put_all.take_error().with_hint(
          "run the same command again: it goes on with the parts that have arrived");
    }
    std::vector<Part> parts;
    for (std::optional<Part>& part : parts_) parts.push_back(std::move(*part));
    MR_TRY(finish_upload(object_, upload_, parts));
    return Transferred{size_, resumed_};
  }

 private:
  Status begin() {
    // A store that cannot list uploads can still take one.
    auto earlier = find_upload(object_);
    if (earlier && *earlier) {
      auto parts = list_parts(object_, **earlier);
      if (parts && take_over(*parts)) {
        upload_ = **earlier;
        return {};
      }
    }
    upload_ = MR_TRY(begin_upload(object_, options_.put));
    return {};
  }

  // True if at least one part is worth going on with.
  bool take_over(const std::vector<Part>& earlier) {
    for (const Part& part : earlier) {
      if (part.number < 1 || static_cast<size_t>(part.number) > parts_.size()) return false;
      const std::string_view bytes = bytes_of(static_cast<size_t>(part.number) - 1);
      if (part.size != bytes.size() || !is_same(part, bytes)) continue;
      resumed_ += part.size;
      if (options_.progress != nullptr) options_.progress->add(part.size, 0);
      parts_[static_cast<size_t>(part.number) - 1] = part;
    }
    return resumed_ > 0;
  }

  static bool is_same(const Part& part, std::string_view bytes) {
    if (!part.crc32c.empty()) return part.crc32c == net::to_base64(net::digest(DigestKind::kCrc32c, bytes));
    return part.etag.find(net::to_hex(net::digest(DigestKind::kMd5, bytes))) != std::string::npos;
  }

  std::string_view bytes_of(size_t part) const {
    return mapped_.bytes().substr(part * part_bytes_, part_bytes_);
  }

  Status put(size_t part) {
    if (parts_[part]) return {};
    const std::string_view bytes = bytes_of(part);
    const net::FileRange range{&file_, part * part_bytes_, bytes.size()};
    parts_[part] = MR_TRY(put_part(object_, upload_, static_cast<int>(part) + 1, range,
                                   net::digest(DigestKind::kCrc32c, bytes)));
    if (options_.progress != nullptr) options_.progress->add(bytes.size(), 0);
    return {};
  }

  const File& file_;
  const uint64_t size_;
  const Location& object_;
  const TransferOptions& options_;
  const uint64_t part_bytes_;
  MappedFile mapped_;
  std::string upload_;
  std::vector<std::optional<Part>> parts_;  // each element belongs to the thread that took its number
  uint64_t resumed_ = 0;
};

}  // namespace

uint64_t part_bytes_for(uint64_t object_bytes) {
  constexpr uint64_t kStep = 1 << 20;
  const uint64_t least = (object_bytes + kMostParts - 1) / kMostParts;
  return std::max(kPartBytes, (least + kStep - 1) / kStep * kStep);
}

Result<Transferred> upload_file(const std::string& path, const Location& object,
                                const TransferOptions& options) {
  const File file = MR_TRY(File::open_read(path));
  if (!MR_TRY(file.is_regular()))
    return make_error(Code::kInvalid, "{} is not a file", path).with_hint("directories need -r");
  const uint64_t size = MR_TRY(file.size());
  if (size > kMultipartFrom) return FileUpload(file, size, object, options).run();
  std::string crc;
  {
    // Unmapped before it is sent: a file that shrinks meanwhile is then an error and not a signal.
    const MappedFile mapped = MR_TRY(MappedFile::map(file));
    crc = net::digest(DigestKind::kCrc32c, mapped.bytes());
  }
  MR_TRY(put_object(object, net::FileRange{&file, 0, size}, crc, options.put));
  if (options.progress != nullptr) options.progress->add(size, 0);
  return Transferred{size, 0};
}

}  // namespace millrace::transfer
