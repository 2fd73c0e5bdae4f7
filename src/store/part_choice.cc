// The rules of a completion, and what an object takes over from its parts.
#include "store/part_choice.h"

#include <algorithm>

#include "base/clock.h"
#include "base/crc.h"
#include "store/reasons.h"
#include "store/shard_feed.h"

namespace millrace::store {

Result<std::vector<UploadPart>> choose_parts(const std::vector<UploadPart>& there,
                                             const std::vector<CompletePart>& wanted) {
  if (wanted.empty()) return make_error(kNoSuchPart, "the list of parts is empty");
  std::vector<UploadPart> chosen;
  for (const CompletePart& want : wanted) {
    if (!chosen.empty() && want.number <= chosen.back().number) {
      return make_error(kPartsOutOfOrder, "part {} is listed behind part {}", want.number,
                        chosen.back().number);
    }
    const auto same = std::ranges::equal_range(there, want.number, {}, &UploadPart::number);
    if (same.empty()) return make_error(kNoSuchPart, "part {} was not uploaded", want.number);
    const auto found =
        std::ranges::find(same, want.etag, [](const UploadPart& part) { return part.record.etag; });
    if (found == same.end()) {
      return make_error(kNoSuchPart, "part {} has the etag {}, not {}", want.number, same.front().record.etag,
                        want.etag);
    }
    chosen.push_back(*found);
  }
  for (size_t i = 0; i + 1 < chosen.size(); ++i) {
    if (chosen[i].record.size < kMinPartBytes) {
      return make_error(kPartTooSmall, "part {} has {} bytes, all but the last need {}", chosen[i].number,
                        chosen[i].record.size, kMinPartBytes);
    }
  }
  return chosen;
}

Result<Record> join_parts(const std::vector<UploadPart>& parts, UploadWords words,
                          const Completion& completion) {
  Record record;
  record.modified_ms = wall_ms();
  for (const UploadPart& part : parts) {
    record.size += part.record.size;
    record.crc32c = crc32c_join(record.crc32c, part.record.crc32c, part.record.size);
    record.pieces.insert(record.pieces.end(), part.record.pieces.begin(), part.record.pieces.end());
  }
  if (record.size > kMaxObjectBytes) return make_error(Code::kTooLarge, "the object is above the maximum");
  record.etag = completion.finish.etag;
  record.headers = std::move(words.headers);
  record.headers.insert(record.headers.end(), completion.finish.headers.begin(),
                        completion.finish.headers.end());
  record.tags = std::move(words.tags);
  if (is_shard_name(completion.name.key)) record.shard = ShardState::kPending;
  return record;
}

}  // namespace millrace::store
