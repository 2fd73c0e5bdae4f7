// What a transform is given: all of a shard, some samples of it, or the sample to which a member belongs; and
// what of its result goes out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "gateway/call.h"
#include "gateway/result_flow.h"
#include "gateway/transforms.h"
#include "store/objects.h"
#include "tar/writer.h"

namespace millrace::gateway {

struct TransformPart {
  enum class What : uint8_t { kWhole, kSamples, kMember };
  What what = What::kWhole;
  std::pair<uint64_t, uint64_t> samples{};  // first and last
  std::string member;                       // of the result
};

// The result of a few samples is held whole to look for a member, or to take its end off.
inline constexpr uint64_t kMostResultBytes = 256 << 20;

struct PartRun {
  store::ObjectPointer object;
  const Transform& transform;
  TransformPart part;
};

// Blocks. A tar goes into `out`; of a member its bytes alone.
Status run_part(Services& services, const PartRun& run, tar::ByteSink& out);
// The result without its end blocks; kTooLarge beyond kMostResultBytes.
Result<std::string> run_to_blocks(Services& services, const PartRun& run);
// The bytes of a member in such blocks; kNoSuchMember.
Result<std::string_view> find_in_blocks(std::string_view blocks, const std::string& member);

// Sends what a run gives, once the head can be made.
net::Task<Status> send_flow(Call& call, std::shared_ptr<ResultFlow> flow, std::function<void()> add_headers);

}  // namespace millrace::gateway
