// System calls behind unfinished_file.h.
#include "store/unfinished_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/fault.h"
#include "base/ids.h"
#include "store/drive.h"
#include "store/trailer.h"

namespace millrace::store {

namespace {

constexpr uint64_t kFirstStep = 8 << 20;
constexpr uint64_t kMostStep = 256 << 20;
constexpr size_t kTailBuffer = 1 << 20;

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

}  // namespace

UnfinishedFile::UnfinishedFile(std::shared_ptr<Drive> drive, std::optional<uint64_t> size)
    : drive_(std::move(drive)), size_(size) {
  if (size_) drive_->reserve(*size_);
}

UnfinishedFile::~UnfinishedFile() {
  if (size_) drive_->release(*size_);
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

Status UnfinishedFile::open() {
  const MutexLock lock(opening_);
  if (file_.is_open()) return {};
  const std::string directory = drive_->temporary_directory();
  int flags = O_RDWR | O_CLOEXEC;
  if (drive_->write_mode() == WriteMode::kDirect) flags |= O_DIRECT;
  int descriptor = ::open(directory.c_str(), flags | O_TMPFILE, 0644);
  // tmpfs before 6.6 and some network file systems have no O_DIRECT.
  if (descriptor < 0 && errno == EINVAL) {
    flags &= ~O_DIRECT;
    descriptor = ::open(directory.c_str(), flags | O_TMPFILE, 0644);
  }
  std::string path;
  if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
    path = fmt::format("{}/{}", directory, make_id());
    descriptor = ::open(path.c_str(), flags | O_CREAT | O_EXCL, 0644);
  }
  if (descriptor < 0) return drive_->failed_call(errno, "making a file in " + directory);
  temporary_path_ = path;
  file_ = File(descriptor, "unfinished file in " + directory);
  MR_FAULT("put.opened");
  return {};
}

Status UnfinishedFile::make_room(uint64_t until) {
  MR_TRY(open());
  if (until <= allocated_) return {};
  const uint64_t step = std::clamp<uint64_t>(allocated_, kFirstStep, kMostStep);
  const uint64_t wanted = std::max(until, size_ ? padded_to_page(*size_) : allocated_ + step);
  if (::fallocate(descriptor(), 0, static_cast<off_t>(allocated_), static_cast<off_t>(wanted - allocated_)) !=
      0) {
    // Where the file system cannot allocate ahead, writing does it.
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) {
      return drive_->failed_call(errno, "allocating space");
    }
  }
  allocated_ = wanted;
  MR_FAULT("put.allocated");
  return {};
}

Status UnfinishedFile::write_tail(uint64_t offset, std::string_view bytes) {
  MR_TRY(open());
  const std::unique_ptr<std::byte, FreeMemory> buffer(
      static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kTailBuffer)));
  if (buffer == nullptr) return make_error(Code::kUnavailable, "no memory for the end of a file");
  while (!bytes.empty()) {
    const std::string_view now = bytes.substr(0, kTailBuffer);
    const size_t size = padded_to_page(now.size());
    std::memcpy(buffer.get(), now.data(), now.size());
    std::memset(buffer.get() + now.size(), 0, size - now.size());
    size_t done = 0;
    while (done < size) {
      const ssize_t wrote =
          ::pwrite(descriptor(), buffer.get() + done, size - done, static_cast<off_t>(offset + done));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return drive_->failed_call(errno, "writing the end of a file");
      if (wrote == 0) return drive_->failed_call(EIO, "writing the end of a file");
      done += static_cast<size_t>(wrote);
    }
    offset += now.size();
    bytes.remove_prefix(now.size());
  }
  MR_FAULT("put.tail");
  return {};
}

Status UnfinishedFile::read_back(uint64_t offset, std::span<std::byte> into) const {
  auto read = file_.read_exactly(offset, into);
  return read ? Status() : Status(drive_->note(read.take_error()));
}

Status UnfinishedFile::publish(uint64_t name, uint64_t size, Durability durability) {
  drive_->keeper().begin(name);
  Status published = name_and_flush(name, size, durability);
  if (!published) drive_->keeper().settle({name});
  return published;
}

Status UnfinishedFile::name_and_flush(uint64_t name, uint64_t size, Durability durability) {
  if (::ftruncate(descriptor(), static_cast<off_t>(size)) != 0) {
    return drive_->failed_call(errno, "giving a file its length");
  }
  MR_FAULT("put.truncated");
  // The name first, then the flush: so one flush covers the data and the link count of the inode, also on a
  // file system without journal. A file named but not yet in the index is litter that the sweep removes.
  MR_TRY(give_name(name));
  MR_FAULT("put.linked");
  if (durability == Durability::kFlush) {
    // A flush that failed is never tried again: the kernel has dropped the pages and would report success.
    if (!broken("no-fsync") && ::fsync(descriptor()) != 0) {
      const int reason = errno;
      ::unlink(drive_->file_path(name).c_str());
      Error error = drive_->failed_call(reason, "flushing " + drive_->file_path(name));
      if (error.code() == Code::kIo) drive_->mark_failed(error.message());
      return error;
    }
    MR_FAULT("put.flushed");
    if (!broken("no-fsync") && !broken("no-dir-fsync")) {
      Status synced = drive_->sync_directory_of(name);
      if (!synced) {
        ::unlink(drive_->file_path(name).c_str());
        return synced;
      }
    }
    MR_FAULT("put.directory");
  }
  return {};
}

Status UnfinishedFile::give_name(uint64_t name) {
  const std::string path = drive_->file_path(name);
  // A file of this name is litter of an earlier run: had it been committed, the clock would be beyond it.
  for (int attempt = 0; attempt < 2; ++attempt) {
    int result = 0;
    if (temporary_path_.empty()) {
      const std::string self = fmt::format("/proc/self/fd/{}", descriptor());
      result = ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
    } else {
      result = ::rename(temporary_path_.c_str(), path.c_str());
    }
    if (result == 0) {
      temporary_path_.clear();
      return {};
    }
    if (errno != EEXIST || ::unlink(path.c_str()) != 0) break;
  }
  return drive_->failed_call(errno, "naming " + path);
}

}  // namespace millrace::store
