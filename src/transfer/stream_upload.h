// StreamUpload: bytes whose number nobody knows beforehand, as one object that appears when it is complete.
//
// What fits into one part is one request. More goes up in parts, by threads of its own, while the next part
// fills. Dropped before finish(), the upload is aborted and leaves nothing. Memory: at most kStreamThreads +
// 2 parts. One thread writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/queue.h"
#include "base/result.h"
#include "transfer/objects.h"
#include "transfer/upload.h"

namespace millrace::transfer {

inline constexpr unsigned kStreamThreads = 2;

class StreamUpload {
 public:
  explicit StreamUpload(Location object, PutOptions options = {});
  StreamUpload(const StreamUpload&) = delete;
  StreamUpload& operator=(const StreamUpload&) = delete;
  ~StreamUpload();

  Status write(std::string_view bytes);
  Status finish();
  uint64_t bytes() const { return bytes_; }

 private:
  struct Piece {
    int number = 0;
    std::string bytes;
  };
  uint64_t next_part_bytes() const;
  Status push_part();
  void send_parts();
  void join();
  Status first_failure();

  const Location object_;
  const PutOptions options_;
  std::string filling_;
  std::string upload_;  // empty: not begun
  int last_number_ = 0;
  uint64_t bytes_ = 0;
  bool finished_ = false;
  BoundedQueue<Piece> pieces_{1};
  std::vector<std::thread> threads_;
  Mutex mutex_;
  std::vector<Part> parts_ MR_GUARDED_BY(mutex_);
  std::optional<Error> failure_ MR_GUARDED_BY(mutex_);  // the first
};

}  // namespace millrace::transfer
