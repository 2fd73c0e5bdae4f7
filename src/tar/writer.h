// Writer: members to a tar archive that every tar reads, the same bytes for the same input every time.
//
// Plain ustar headers with fixed owner, mode and time; a pax header only where a name, a size or a time does
// not fit. Owns nothing but its position; the sink decides where bytes go. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::tar {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status write(std::string_view bytes) = 0;
  // Two pieces that belong together; a sink that can, writes them at once.
  virtual Status write(std::string_view first, std::string_view second);
  // Everything that was written is handed on; nothing follows.
  virtual Status finish() = 0;
};

struct Entry {
  std::string_view name;
  uint64_t size = 0;
  uint32_t mode = 0644;
  int64_t mtime = 0;
};

// The header blocks of a regular file. An error for an empty name or one with a NUL.
Result<std::string> make_header(const Entry& entry);

// How many bytes make_header gives.
uint64_t header_bytes(const Entry& entry);

class Writer {
 public:
  explicit Writer(ByteSink& sink) : sink_(sink) {}

  Status add(const Entry& entry, std::string_view bytes);

  // The same in pieces: begin, then data until entry.size bytes are there, then end.
  Status begin(const Entry& entry);
  Status data(std::string_view bytes);
  Status end();

  // Members of another archive, as they lie there.
  Status copy(std::string_view blocks);

  // Two zero blocks, then the sink is finished too.
  Status finish();

  uint64_t offset() const { return offset_; }

 private:
  ByteSink& sink_;
  uint64_t offset_ = 0;
  uint64_t data_left_ = 0;
};

}  // namespace millrace::tar
