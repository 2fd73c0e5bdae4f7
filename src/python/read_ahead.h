// ReadAhead: a thread that fills batches while Python works on the ones before.
//
// At most `memory` bytes wait (and always room for one batch, so a larger sample passes). The thread owns
// what it uses together with this object: whoever lets go of a ReadAhead waits a moment for the thread, but
// not for a server that hangs. After fork() the child has no such thread; next() says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "python/batch.h"

namespace millrace::python {

class ReadAhead {
 public:
  static Result<std::unique_ptr<ReadAhead>> start(BatchReader reader, uint64_t memory);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  enum class Got { kBatch, kNotYet, kEnd };
  // Exchanges `batch`, which was used up, for the next one. Waits no longer than `patience`.
  Result<Got> next(Batch& batch, std::chrono::milliseconds patience);

  // Ends the thread as soon as it looks up; later next() see the end.
  void stop();

 private:
  struct Shared;
  explicit ReadAhead(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  static void run(Shared& shared);

  std::shared_ptr<Shared> shared_;
};

}  // namespace millrace::python
