// Shipment: what a rank sends and receives in one exchange: first lists of samples, then their bytes.
//
// Both sides know from the plan who sends how many to whom, so every receive is posted before anything is
// sent, from a named rank, for a known size. The lists say how large each sample is; from them both sides cut
// the bytes into the same messages: small samples gathered into messages of a MiB, large ones sent from where
// they lie; all are received where they stay. Few messages are under way at a time, so memory is bounded. One
// thread; it yields while there is nothing to do.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "exchange/group.h"

namespace millrace::exchange {

// A sample in a list, as it travels. Little-endian.
struct Parcel {
  uint64_t id = 0;
  uint64_t bytes = 0;
  uint32_t label = 0;
  uint32_t crc = 0;
  uint32_t home = 0;
  uint32_t spare = 0;
};
static_assert(sizeof(Parcel) == 32);

// No sample is larger.
inline constexpr uint64_t kMaxSample = uint64_t{64} << 30;

struct OutgoingSample {
  Parcel parcel;
  std::string_view blocks;
};
struct Outgoing {
  uint32_t to = 0;
  std::vector<OutgoingSample> samples;
};
struct Incoming {
  uint32_t from = 0;
  uint64_t count = 0;
};

// A message: consecutive bytes of a list of samples laid end to end.
struct Cut {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t first = 0;  // sample in which it begins
};
std::vector<Cut> cut_messages(std::span<const uint64_t> sample_bytes);

// Memory that small samples are gathered in; kept from one shipment to the next, because fresh pages cost
// more than the copying.
struct GatherPool {
  std::vector<std::unique_ptr<std::byte[]>> buffers;
};

class Shipment {
 public:
  Shipment(Group& group, std::vector<Outgoing> outgoing, std::vector<Incoming> incoming, Patience patience);
  // Before the samples are exchanged; one shipment at a time uses a pool.
  void use(std::shared_ptr<GatherPool> pool) { pool_ = std::move(pool); }
  ~Shipment();

  // The lists of what will arrive, in the order of `incoming`.
  Result<std::vector<std::vector<Parcel>>> exchange_lists();
  // The bytes of all arrivals, one behind the other in the order of the lists; `into` has exactly their size.
  Status exchange_samples(std::span<std::byte> into);

  uint64_t messages() const { return messages_; }
  uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct State;
  Status send_next(size_t peer);
  Status receive_next(size_t peer);
  Result<bool> finish_some();
  Error stalled() const;
  bool under_way() const;

  Group& group_;
  const Patience patience_;
  std::shared_ptr<State> state_;
  std::shared_ptr<GatherPool> pool_ = std::make_shared<GatherPool>();
  uint64_t messages_ = 0;
  uint64_t bytes_sent_ = 0;
};

}  // namespace millrace::exchange
