// Downloads an object in ranges that threads take in turn.
#include "transfer/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/crc.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/mutex.h"
#include "base/number.h"
#include "base/text.h"
#include "base/threads.h"
#include "net/ranged.h"

namespace millrace::transfer {

namespace {

constexpr uint64_t kMaxStateBytes = 64 << 20;

std::string crc_text(uint32_t value) {
  std::string bytes;
  for (int byte = 3; byte >= 0; --byte) bytes += static_cast<char>(value >> (8 * byte));
  return net::to_base64(bytes);
}

Error wrong_checksum(const Location& object) {
  return make_error(Code::kCorrupt, "{}: the bytes received do not have the checksum of the object",
                    object.text())
      .with_hint("run the same command again; if it stays so, the stored object is damaged");
}

Result<File> open_for_writing(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0666);
  if (descriptor < 0) return make_system_error(errno, "opening " + path);
  return File(descriptor, path);
}

// One object on its way to a file.
class FileDownload {
 public:
  FileDownload(const Location& object, const ObjectHead& head, std::string path,
               const TransferOptions& options)
      : object_(object), head_(head), size_(*head.size), path_(std::move(path)), options_(options) {}

  Result<Transferred> run() {
    crcs_.resize(size_ == 0 ? 0 : (size_ - 1) / kStretchBytes + 1);
    MR_TRY(open());
    auto fetched = run_each(crcs_.size(), options_.jobs, [this](size_t stretch) { return fetch(stretch); });
    if (!fetched)
      return fetched.take_error().with_hint("run the same command again: it goes on where it stopped");
    MR_TRY(finish());
    return Transferred{size_, resumed_};
  }

 private:
  std::string part_path() const { return path_ + std::string(kPartSuffix); }
  std::string state_path() const { return path_ + std::string(kStateSuffix); }
  std::string first_line() const { return fmt::format("millrace-part 1 {} {}\n", size_, head_.etag); }

  Status open() {
    state_ = MR_TRY(open_for_writing(state_path(), O_APPEND));
    MR_TRY(try_lock(state_).within("fetching " + path_));
    // Without a tag nothing proves that what is there is of this version.
    const auto state = read_file(state_path(), kMaxStateBytes);
    const bool resumes =
        !head_.etag.empty() && state && state->starts_with(first_line()) && file_exists(part_path());
    if (resumes) take_over(std::string_view(*state).substr(first_line().size()));
    part_ = MR_TRY(open_for_writing(part_path(), resumes ? 0 : O_TRUNC));
    if (!resumes) {
      if (::ftruncate(state_.descriptor(), 0) != 0)
        return make_system_error(errno, "emptying " + state_path());
      MR_TRY(state_.write_all(first_line()));
    }
    if (size_ > 0 && ::ftruncate(part_.descriptor(), static_cast<off_t>(size_)) != 0)
      return make_system_error(errno, "making room for " + part_path());
    return {};
  }

  // Lines of "stretch crc"; a last line that was cut is left out.
  void take_over(std::string_view lines) {
    while (true) {
      const size_t end = lines.find('\n');
      if (end == std::string_view::npos) return;
      std::string_view line = lines.substr(0, end);
      lines.remove_prefix(end + 1);
      const auto stretch = take_number<uint64_t>(line);
      const auto crc = line.starts_with(' ') ? parse_number<uint32_t>(line.substr(1)) : std::nullopt;
      if (!stretch || !crc || *stretch >= crcs_.size() || crcs_[*stretch]) continue;
      crcs_[*stretch] = *crc;
      resumed_ += stretch_bytes(*stretch);
      if (options_.progress != nullptr) options_.progress->add(stretch_bytes(*stretch), 0);
    }
  }

  uint64_t stretch_bytes(uint64_t stretch) const {
    return std::min(kStretchBytes, size_ - stretch * kStretchBytes);
  }

  Status fetch(size_t stretch) {
    if (crcs_[stretch]) return {};
    std::vector<std::byte> buffer(net::kReadBytes);
    uint64_t at = stretch * kStretchBytes;
    const uint64_t end = at + stretch_bytes(stretch);
    // A small object is asked for whole: servers without ranges exist.
    const net::ByteRange range = crcs_.size() == 1 ? net::ByteRange{} : net::ByteRange{at, end - at};
    const auto reader =
        MR_TRY(net::RangedReader::open(object_.store->client(), object_.url, {range, head_.etag, {}}));
    uint32_t crc = 0;
    while (at < end) {
      const size_t got = MR_TRY(reader->read_some(buffer));
      if (got == 0 || got > end - at)
        return make_error(Code::kTruncated, "{} has another length than it said", object_.text());
      const std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), got);
      crc = crc32c(bytes, crc);
      MR_TRY(part_.write_at(at, bytes));
      if (options_.progress != nullptr) options_.progress->add(got, 0);
      at += got;
    }
    const MutexLock lock(mutex_);
    crcs_[stretch] = crc;
    return state_.write_all(fmt::format("{} {}\n", stretch, crc));
  }

  Status finish() {
    if (!head_.crc32c.empty() && head_.crc32c != crc_text(whole_crc())) {
      MR_TRY(drop());
      return wrong_checksum(object_);
    }
    if (head_.modified_ms > 0) {
      const timespec time{head_.modified_ms / 1000, (head_.modified_ms % 1000) * 1'000'000};
      const timespec times[2] = {time, time};
      ::futimens(part_.descriptor(), times);
    }
    MR_TRY(part_.sync());
    if (std::rename(part_path().c_str(), path_.c_str()) != 0) {
      if (errno != EISDIR) return make_system_error(errno, "naming " + path_);
      // Somebody made a directory of that name meanwhile: there is nothing to go on with.
      MR_TRY(drop());
      return make_error(Code::kExists, "{} exists and is not a file", path_);
    }
    return remove_file_if_present(state_path());
  }

  Status drop() {
    MR_TRY(remove_file_if_present(part_path()));
    return remove_file_if_present(state_path());
  }

  uint32_t whole_crc() const {
    uint32_t whole = 0;
    for (size_t i = 0; i < crcs_.size(); ++i) whole = crc32c_join(whole, *crcs_[i], stretch_bytes(i));
    return whole;
  }

  const Location& object_;
  const ObjectHead& head_;
  const uint64_t size_;
  const std::string path_;
  const TransferOptions& options_;
  File part_;
  uint64_t resumed_ = 0;
  Mutex mutex_;
  File state_;  // written with mutex_ held while threads run, by one thread otherwise
  // Of the stretches; each element belongs to whoever took its number.
  std::vector<std::optional<uint32_t>> crcs_;
};

// A server that does not say how long the object is: no ranges, no going on.
Result<Transferred> download_unknown_length(const Location& object, const std::string& path,
                                            const TransferOptions& options) {
  AtomicFile file = MR_TRY(AtomicFile::create(path));
  const Transferred done = MR_TRY(download_stream(
      object, options.progress, [&](std::string_view bytes) { return file.file().write_all(bytes); }));
  MR_TRY(file.finish());
  return done;
}

}  // namespace

bool is_unfinished_download(std::string_view path) {
  return path.ends_with(kPartSuffix) || path.ends_with(kStateSuffix);
}

Result<Transferred> download_file(const Location& object, const std::string& path,
                                  const TransferOptions& options) {
  struct stat found{};
  if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
    return make_error(Code::kExists, "{} exists and is not a file", path);
  if (is_unfinished_download(path))
    return make_error(Code::kExists, "{} would pass for an unfinished download", path)
        .with_hint("fetch it under another name");
  const ObjectHead head = MR_TRY(get_head(object));
  if (!head.size) return download_unknown_length(object, path, options);
  return FileDownload(object, head, path, options).run();
}

Result<Transferred> download_stream(const Location& object, Progress* progress,
                                    const std::function<Status(std::string_view)>& take) {
  net::Wanted wanted;
  // A signature in the address covers no further headers.
  if (object.url.query.empty()) wanted.headers.emplace_back("x-amz-checksum-mode", "ENABLED");
  const auto reader = MR_TRY(net::RangedReader::open(object.store->client(), object.url, wanted));
  const ObjectHead head = read_head(reader->headers());
  std::vector<std::byte> buffer(net::kReadBytes);
  uint32_t crc = 0;
  Transferred done;
  while (true) {
    const size_t got = MR_TRY(reader->read_some(buffer));
    if (got == 0) break;
    const std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), got);
    crc = crc32c(bytes, crc);
    MR_TRY(take(bytes));
    if (progress != nullptr) progress->add(got, 0);
    done.bytes += got;
  }
  if (!head.crc32c.empty() && head.crc32c != crc_text(crc)) return wrong_checksum(object);
  return done;
}

}  // namespace millrace::transfer
