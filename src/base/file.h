// Files as the rest of the code sees them: descriptors that close themselves, whole reads and writes,
// read-only mappings, and files that appear under their name only when they are complete and durable.
//
// Every call retries EINTR and returns a Result that names the path. A File belongs to one thread at a time,
// but for what is const; a MappedFile is immutable and may be shared. A mapped file must not be truncated
// while mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

class File {
 public:
  File() = default;
  File(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  static Result<File> open_read(const std::string& path);
  static Result<File> standard_input();
  static Result<File> standard_output();
  // A private file in `directory` that vanishes with its descriptor.
  static Result<File> make_temporary(const std::string& directory);

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  const std::string& name() const { return name_; }

  Result<size_t> read_some(std::span<std::byte> into);  // 0 at the end
  // As much as there is; less only at the end. Any thread.
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> into) const;
  // All of it: kTruncated where the file ends before.
  Status read_exactly(uint64_t offset, std::span<std::byte> into) const;
  Status write_at(uint64_t offset, std::string_view bytes);
  Status write_all(std::string_view bytes);
  Status write_all(std::string_view first, std::string_view second);  // one system call where possible
  Result<uint64_t> size() const;
  Result<bool> is_regular() const;
  Status sync();

 private:
  int descriptor_ = -1;
  std::string name_;
};

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  static Result<MappedFile> open(const std::string& path);
  static Result<MappedFile> map(const File& file);  // the file may be closed afterwards

  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

// Written out of sight, renamed into place by finish() after fsync. Destroyed before that: no trace. Only a
// regular file is ever replaced: devices, pipes and directories are refused.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  File& file() { return file_; }
  const std::string& path() const { return path_; }

  // fsync, rename, fsync of the directory. After this the file survives power loss.
  Status finish();

 private:
  AtomicFile() = default;

  File file_;
  std::string path_;
  std::string temporary_path_;  // empty while the file has no name at all
};

// Which file a path leads to, whatever it is called; nothing if there is none.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
std::optional<FileIdentity> find_identity(const std::string& path);

Result<std::string> read_file(const std::string& path, uint64_t most_bytes);
Status write_file_atomically(const std::string& path, std::string_view bytes);
// Root writes for others too: the file gets the owner of what is at that path.
Status give_to_owner_of(const File& file, const std::string& path);
// The same for secrets: readable by their owner only, from the first byte on. Owner and mode of the file that
// it replaces stay; a new one belongs to the owner of its directory.
Status write_secret_file(const std::string& path, std::string_view bytes);
// Makes the names in it survive power loss: those that were made and those that were removed.
Status sync_directory(const std::string& directory);
Status remove_file_if_present(const std::string& path);
bool file_exists(const std::string& path);
Result<uint64_t> file_size(const std::string& path);
std::string directory_of(const std::string& path);  // "." for a bare name

}  // namespace millrace
