// Shipment: what a rank sends and receives in one exchange: first lists of samples, then their bytes.
//
// Both sides know from the plan who sends how many to whom, so every receive is posted before anything is
// sent, from a named rank, for a known size. The lists say how large each sample is; from them both sides cut
// the bytes into the same messages: small samples gathered into messages of a MiB, large ones sent from where
// they lie; all are received where they stay. Few messages are under way at a time, so memory is bounded.
// Between neighbours no bytes are sent: the receiver copies them. One thread; it yields while there is
// nothing to do.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "exchange/group.h"
#include "exchange/neighbours.h"

namespace millrace::exchange {

// A sample in a list, as it travels. Little-endian.
struct Parcel {
  uint64_t id = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // in the sender's segment
  uint32_t label = 0;
  uint32_t crc = 0;
  uint32_t home = 0;
  uint32_t segment = 0;
};
static_assert(sizeof(Parcel) == 40);

// No sample is larger.
inline constexpr uint64_t kMaxSample = uint64_t{64} << 30;

struct Outgoing {
  uint32_t to = 0;
  std::vector<Parcel> list;
  std::vector<std::string_view> blocks;  // of the samples in the list

  void reserve(size_t count) {
    list.reserve(count);
    blocks.reserve(count);
  }
  void add(const Parcel& parcel, std::string_view bytes) {
    list.push_back(parcel);
    blocks.push_back(bytes);
  }
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
  // Both before the lists are exchanged; one shipment at a time uses a pool.
  void use(std::shared_ptr<GatherPool> pool) { pool_ = std::move(pool); }
  void use(std::shared_ptr<Neighbours> neighbours) { neighbours_ = std::move(neighbours); }
  ~Shipment();

  // The lists of what will arrive, in the order of `incoming`; valid as long as the shipment.
  Result<std::span<const std::vector<Parcel>>> exchange_lists();
  // Opens the neighbours' segments, so that a failure can still be voted on.
  Status open_segments();
  // The bytes of all arrivals, one behind the other in the order of the lists; `into` has exactly their size.
  Status exchange_samples(std::span<std::byte> into);

  uint64_t messages() const { return messages_; }
  uint64_t bytes_sent() const { return bytes_sent_; }  // of samples, those that neighbours took among them

 private:
  struct State;
  Status send_next(size_t peer);
  Status receive_next(size_t peer);
  Result<bool> post_messages();
  bool copy_some();
  Result<bool> finish_some();
  Error stalled() const;
  bool under_way() const;

  Group& group_;
  const Patience patience_;
  std::shared_ptr<State> state_;
  std::shared_ptr<GatherPool> pool_ = std::make_shared<GatherPool>();
  std::shared_ptr<Neighbours> neighbours_;  // null: everything is sent
  uint64_t messages_ = 0;
  uint64_t bytes_sent_ = 0;
};

}  // namespace millrace::exchange
