// What jobs keep in the registry, and what nodes and workers say to each other: whatever is read can be
// written again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "jobs/job_book.h"
#include "jobs/worker_lines.h"

using namespace millrace::jobs;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  switch (bytes[0] % 7) {
    case 0:
      if (const auto table = TaskTable::decode(text))
        MR_ASSERT(TaskTable::decode(table->encode())->encode() == table->encode());
      break;
    case 1:
      if (const auto job = decode_description(text)) MR_ASSERT(decode_description(encode(*job)).has_value());
      break;
    case 2:
      if (const auto job = decode_job("id", text)) MR_ASSERT(decode_job("id", encode(*job)).has_value());
      break;
    case 3:
      if (const auto tasks = decode_tasks(text)) MR_ASSERT(*decode_tasks(encode(*tasks)) == *tasks);
      break;
    case 4:
      if (const auto ranks = decode_ranks(text))
        MR_ASSERT(decode_ranks(encode(*ranks))->ranks == ranks->ranks);
      break;
    case 5:
      if (const auto order = decode_order(text)) MR_ASSERT(decode_order(encode(*order)).has_value());
      break;
    default:
      if (const auto answer = decode_answer(text)) MR_ASSERT(decode_answer(encode(*answer)).has_value());
  }
  return 0;
}
