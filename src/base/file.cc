// Implements files with POSIX calls.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/ids.h"
#include "base/units.h"

namespace millrace {

namespace {

template <typename Call>
auto retried(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

Error errno_error(std::string_view verb, std::string_view name) {
  return make_system_error(errno, fmt::format("{} {}", verb, name));
}

}  // namespace

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<File> File::open_read(const std::string& path) {
  const int descriptor = retried([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (descriptor < 0) return errno_error("opening", path);
  File file(descriptor, path);
  struct stat facts = {};
  if (::fstat(descriptor, &facts) != 0) return errno_error("looking at", path);
  if (S_ISDIR(facts.st_mode)) return make_error(Code::kInvalid, "opening {}: it is a directory", path);
  return file;
}

Result<File> File::standard_input() {
  const int descriptor = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  if (descriptor < 0) return errno_error("opening", "standard input");
  return File(descriptor, "standard input");
}

Result<File> File::standard_output() {
  const int descriptor = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (descriptor < 0) return errno_error("opening", "standard output");
  return File(descriptor, "standard output");
}

Result<File> File::make_temporary(const std::string& directory) {
  const int descriptor =
      retried([&] { return ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); });
  if (descriptor >= 0) return File(descriptor, "temporary file in " + directory);
  // Some network file systems have no O_TMPFILE: a name that is gone before anyone can use it.
  const std::string path = fmt::format("{}/.millrace-{}.tmp", directory, make_id());
  const int named =
      retried([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); });
  if (named < 0) return errno_error("making a temporary file in", directory);
  ::unlink(path.c_str());
  return File(named, "temporary file in " + directory);
}

Result<size_t> File::read_some(std::span<std::byte> into) {
  const ssize_t got = retried([&] { return ::read(descriptor_, into.data(), into.size()); });
  if (got < 0) return errno_error("reading", name_);
  return static_cast<size_t>(got);
}

Result<size_t> File::read_at(uint64_t offset, std::span<std::byte> into) const {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = retried([&] {
      return ::pread(descriptor_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    });
    if (got < 0) return errno_error("reading", name_);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

Status File::read_exactly(uint64_t offset, std::span<std::byte> into) const {
  const size_t got = MR_TRY(read_at(offset, into));
  if (got < into.size()) return make_error(Code::kTruncated, "{}: it ends too early", name_);
  return {};
}

Status File::write_at(uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = retried(
        [&] { return ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (done < 0) return errno_error("writing", name_);
    offset += static_cast<uint64_t>(done);
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return {};
}

Status File::write_all(std::string_view bytes) {
  return write_all(bytes, {});
}

Status File::write_all(std::string_view first, std::string_view second) {
  while (!first.empty() || !second.empty()) {
    iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                      {const_cast<char*>(second.data()), second.size()}};
    const ssize_t wrote = retried([&] { return ::writev(descriptor_, parts, second.empty() ? 1 : 2); });
    if (wrote < 0) return errno_error("writing", name_);
    const auto size = static_cast<size_t>(wrote);
    const size_t from_first = std::min(size, first.size());
    first.remove_prefix(from_first);
    second.remove_prefix(size - from_first);
  }
  return {};
}

Result<uint64_t> File::size() const {
  struct stat facts = {};
  if (::fstat(descriptor_, &facts) != 0) return errno_error("looking at", name_);
  return static_cast<uint64_t>(facts.st_size);
}

Result<bool> File::is_regular() const {
  struct stat facts = {};
  if (::fstat(descriptor_, &facts) != 0) return errno_error("looking at", name_);
  return S_ISREG(facts.st_mode);
}

Status File::sync() {
  if (retried([&] { return ::fsync(descriptor_); }) != 0) return errno_error("flushing", name_);
  return {};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const File file = MR_TRY(File::open_read(path));
  return map(file);
}

Result<MappedFile> MappedFile::map(const File& file) {
  const bool regular = MR_TRY(file.is_regular());
  if (!regular) return make_error(Code::kUnsupported, "mapping {}: not a regular file", file.name());
  const uint64_t size = MR_TRY(file.size());
  MappedFile mapped;
  if (size == 0) return mapped;
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) return errno_error("mapping", file.name());
  mapped.bytes_ = {static_cast<const char*>(memory), size};
  return mapped;
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    return make_error(Code::kInvalid, "{} exists and is not a regular file: it is not replaced", path);
  }
  AtomicFile atomic;
  atomic.path_ = path;
  const std::string directory = directory_of(path);
  int descriptor = retried([&] { return ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666); });
  if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    atomic.temporary_path_ = path + "." + make_id() + ".part";
    descriptor = retried(
        [&] { return ::open(atomic.temporary_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  }
  if (descriptor < 0) {
    atomic.temporary_path_.clear();
    return errno_error("creating", path);
  }
  atomic.file_ = File(descriptor, path);
  return atomic;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : file_(std::move(other.file_)),
      path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  std::swap(temporary_path_, other.temporary_path_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

Status AtomicFile::finish() {
  MR_TRY(file_.sync());
  if (temporary_path_.empty()) {
    // The nameless file gets a private name first: rename replaces an older file, link would not.
    const std::string unnamed = fmt::format("/proc/self/fd/{}", file_.descriptor());
    const std::string named = path_ + "." + make_id() + ".part";
    if (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, named.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return errno_error("naming", path_);
    }
    temporary_path_ = named;
  }
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) return errno_error("renaming to", path_);
  temporary_path_.clear();
  return sync_directory(directory_of(path_));
}

std::optional<FileIdentity> find_identity(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return FileIdentity{facts.st_dev, facts.st_ino};
}

Result<std::string> read_file(const std::string& path, uint64_t most_bytes) {
  File file = MR_TRY(File::open_read(path));
  std::string bytes;
  constexpr size_t kStep = 1 << 16;
  while (true) {
    const size_t have = bytes.size();
    bytes.resize(have + kStep);
    const size_t got = MR_TRY(file.read_some(std::as_writable_bytes(std::span(bytes).subspan(have))));
    bytes.resize(have + got);
    if (got == 0) return bytes;
    if (bytes.size() > most_bytes) {
      return make_error(Code::kTooLarge, "reading {}: more than {}", path, format_bytes(most_bytes));
    }
  }
}

Status give_to_owner_of(const File& file, const std::string& path) {
  struct stat wanted{};
  if (::stat(path.c_str(), &wanted) != 0) return errno_error("looking at", path);
  struct stat facts{};
  if (::fstat(file.descriptor(), &facts) != 0) return errno_error("looking at", file.name());
  if (facts.st_uid == wanted.st_uid && facts.st_gid == wanted.st_gid) return {};
  // Only root can, and only for root it matters: others own what they may write.
  if (::geteuid() == 0 && ::fchown(file.descriptor(), wanted.st_uid, wanted.st_gid) != 0)
    return errno_error("changing the owner of", file.name());
  return {};
}

Status write_secret_file(const std::string& path, std::string_view bytes) {
  AtomicFile file = MR_TRY(AtomicFile::create(path));
  struct stat before{};
  const bool there = ::stat(path.c_str(), &before) == 0;
  const mode_t mode = there ? before.st_mode & (S_IRUSR | S_IWUSR) : S_IRUSR | S_IWUSR;
  if (::fchmod(file.file().descriptor(), mode) != 0) {
    return make_system_error(errno, "protecting " + path);
  }
  MR_TRY(give_to_owner_of(file.file(), there ? path : directory_of(path)));
  MR_TRY(file.file().write_all(bytes));
  return file.finish();
}

Status write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile atomic = MR_TRY(AtomicFile::create(path));
  MR_TRY(atomic.file().write_all(bytes));
  return atomic.finish();
}

Status sync_directory(const std::string& directory) {
  const int descriptor =
      retried([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) return errno_error("opening directory", directory);
  File handle(descriptor, directory);
  return handle.sync();
}

Status remove_file_if_present(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return errno_error("removing", path);
  return {};
}

bool file_exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

Result<uint64_t> file_size(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return errno_error("looking at", path);
  return static_cast<uint64_t>(facts.st_size);
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace millrace
