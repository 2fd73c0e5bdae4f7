// Reading a file block by block.
#include "store/verify.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/crc.h"
#include "base/file.h"

namespace millrace::store {

namespace {

struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};

Result<File> open_past_cache(const std::string& path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (descriptor < 0 && errno == EINVAL) descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return make_system_error(errno, "opening " + path);
  return File(descriptor, path);
}

}  // namespace

Result<FileCheck> check_file(const std::string& path, uint64_t file, const BlockVisitor& visit,
                             BlockRange range) {
  FileCheck check;
  {
    const File plain = MR_TRY(File::open_read(path));
    check.trailer = MR_TRY(read_trailer(plain, TrailerParts::kAll));
  }
  if (check.trailer.file != file) return make_error(Code::kCorrupt, "{}: it says it is another file", path);
  const File direct = MR_TRY(open_past_cache(path));
  const std::unique_ptr<char, FreeMemory> memory(
      static_cast<char*>(std::aligned_alloc(kPageBytes, kBlockBytes)));
  if (memory == nullptr) return make_error(Code::kUnavailable, "no memory to check a file");
  const uint64_t blocks = check.trailer.block_crcs.size();
  const uint64_t first = std::min(range.first, blocks);
  const uint64_t end = first + std::min(range.count, blocks - first);
  for (uint64_t block = first; block < end; ++block) {
    const uint64_t at = block * kBlockBytes;
    const size_t length = std::min(kBlockBytes, check.trailer.data_size - at);
    // Behind the data comes padding to a page: a whole number of pages can always be read.
    const size_t wanted = padded_to_page(length);
    const auto got = direct.read_at(at, std::as_writable_bytes(std::span(memory.get(), wanted)));
    const std::string_view bytes(memory.get(), length);
    if (!got || *got < length || crc32c(bytes) != check.trailer.block_crcs[block])
      check.bad_blocks.push_back(block);
    MR_TRY(visit(block, bytes));
  }
  ::posix_fadvise(direct.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  return check;
}

}  // namespace millrace::store
