// Reads cells, decodes where it must, and sends the new slice's cells to its drive.
#include "cluster/slice_builder.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "cluster/cluster.h"
#include "cluster/cluster_reader.h"
#include "cluster/cluster_writer.h"
#include "cluster/reasons.h"
#include "cluster/stripe.h"
#include "store/on_workers.h"
#include "store/waiting.h"

namespace millrace::cluster {

namespace {

constexpr uint64_t kRecodeBytes = 1 << 20;  // read at a time

class Building {
 public:
  Building(Cluster& cluster, const SliceBuilder::Order& order, const std::atomic<bool>& stopping)
      : cluster_(cluster),
        order_(order),
        stopping_(stopping),
        from_(order.record.spread),
        // The new slice may be one more than the object had.
        layout_{from_.k, std::max(from_.m, order.spread.m), from_.k == 1 ? kCellBytes : from_.cell,
                order.record.size},
        coder_(from_.k, std::max(from_.m, order.spread.m)),
        failed_(from_.holders.size(), false) {
    for (const unsigned slot : order.unread) {
      if (slot < failed_.size()) failed_[slot] = true;
    }
  }

  Result<uint64_t> run() {
    uint64_t sent = 0;
    for (uint64_t stripe = 0; stripe < layout_.stripes(); ++stripe) {
      if (stopping_) return make_error(Code::kUnavailable, "the node stops");
      const auto make = [&] { return make_cell(stripe, sent); };
      const uint64_t size =
          MR_TRY(order_.pace == SliceBuilder::Order::Pace::kNow ? make()
                                                                : cluster_.heal_pace().step(stopping_, make));
      if (size == 0 && sent > 0) break;
      sent += size;
    }
    MR_TRY(ask(order_.drive, FinishRequest{order_.drive, order_.name, order_.spread, sent}));
    return sent;
  }

 private:
  // Makes the slice's cell of a stripe and sends it; its size.
  Result<uint64_t> make_cell(uint64_t stripe, uint64_t sent) {
    Bytes cell = MR_TRY(read_or_decode(stripe, order_.spread.slot));
    const uint64_t size = cell.size();
    if (size == 0 && sent > 0) return size;
    AppendRequest append{order_.drive, order_.spread.write_id, order_.spread.slot, sent, std::move(cell)};
    MR_TRY(ask(order_.drive, std::move(append)));
    return size;
  }

  Result<Reply> ask(DriveId drive, Request request) {
    const uint32_t node = cluster_.node_of(drive);
    if (node == 0) return make_error(Code::kUnavailable, "the node of a slice is not in the map");
    return store::wait_for<Reply>(
        [&](Done<Reply> done) { cluster_.call(node, std::move(request), std::move(done)); });
  }

  // A slot that failed once is not asked again.
  Result<Bytes> read_cell(uint64_t stripe, unsigned slot) {
    if (slot >= failed_.size() || failed_[slot])
      return make_error(Code::kUnavailable, "slice {} cannot be read", slot);
    const uint64_t size = layout_.cell_size(stripe, slot);
    if (size == 0) return Bytes();
    const DriveId drive = from_.holders[slot];
    const auto size32 = static_cast<uint32_t>(size);
    Result<Reply> reply = ask(drive, ReadRequest{drive, from_.write_id, static_cast<uint8_t>(slot),
                                                 layout_.cell_offset(stripe), size32});
    auto* bytes = reply ? std::get_if<BytesReply>(&*reply) : nullptr;
    if (bytes != nullptr && bytes->bytes.size() == size) return std::move(bytes->bytes);
    failed_[slot] = true;
    if (!reply) return reply.take_error();
    return make_error(Code::kCorrupt, "slice {} is too short", slot);
  }

  Result<Bytes> read_or_decode(uint64_t stripe, unsigned slot) {
    if (from_.k == 1) return read_copy(stripe);
    if (auto cell = read_cell(stripe, slot)) return cell;
    std::vector<unsigned> slots;
    std::vector<Bytes> cells;
    for (unsigned other = 0; other < failed_.size() && slots.size() < from_.k; ++other) {
      if (other == slot) continue;
      auto cell = read_cell(stripe, other);
      if (!cell) continue;
      slots.push_back(other);
      cells.push_back(cell.take());
    }
    if (slots.size() < from_.k)
      return make_error(kTooFewSlices, "{}/{}: {} of the {} slices that are needed can be read",
                        order_.name.bucket, order_.name.key, slots.size(), from_.k);
    const std::array<unsigned, 1> wanted = {slot};
    const Decoding decoding = MR_TRY(Decoding::make(coder_, slots, wanted));
    std::vector<Cell> views;
    for (const Bytes& cell : cells) views.push_back(std::as_bytes(std::span(cell.view())));
    const Block made = cluster_.blocks().take(layout_.cell_size(stripe, slot));
    const std::array<CellSpace, 1> space = {made.span()};
    if (made.size() > 0) decoding.run(views, space);
    return made.share(made.size());
  }

  Result<Bytes> read_copy(uint64_t stripe) {
    std::optional<Error> error;
    for (unsigned copy = 0; copy < failed_.size(); ++copy) {
      auto cell = read_cell(stripe, copy);
      if (cell) return cell;
      error = cell.take_error();
    }
    return std::move(*error).within("no copy can be read");
  }

  Cluster& cluster_;
  const SliceBuilder::Order& order_;
  const std::atomic<bool>& stopping_;
  const store::Spread& from_;
  const Layout layout_;
  const Coder coder_;
  std::vector<bool> failed_;  // by slot
};

}  // namespace

void ClusterSliceBuilder::build(Order order, Done<uint64_t> done) {
  run([this, order = std::move(order)] { return build_now(order); }, std::move(done));
}

void ClusterSliceBuilder::recode(const ObjectName& name, const store::Record& record, Done<uint64_t> done) {
  run([this, name, record] { return recode_now(name, record); }, std::move(done));
}

void ClusterSliceBuilder::run(std::function<Result<uint64_t>()> work, Done<uint64_t> done) {
  const auto kept = std::make_shared<Done<uint64_t>>(std::move(done));
  store::run_on<uint64_t>(workers_, std::move(work), [this, kept](Result<uint64_t> built) {
    const auto shared = std::make_shared<Result<uint64_t>>(std::move(built));
    cluster_.post([kept, shared] { (*kept)(std::move(*shared)); });
  });
}

void ClusterSliceBuilder::stop() {
  give_up();
  workers_.stop();
}

Result<uint64_t> ClusterSliceBuilder::build_now(const Order& order) {
  return Building(cluster_, order, stopping_).run();
}

Result<uint64_t> ClusterSliceBuilder::recode_now(const ObjectName& name, const store::Record& record) {
  const auto object = std::make_shared<const store::Object>(name.bucket, name.key, record, "");
  store::WaitingReader reader(object, open_cluster_reader(cluster_, object));
  ClusterWriter writer(cluster_, name, record);
  for (uint64_t at = 0; at < record.size;) {
    if (stopping_) return make_error(Code::kUnavailable, "the node stops");
    at += MR_TRY(cluster_.heal_pace().step(stopping_, [&]() -> Result<uint64_t> {
      const std::string bytes = MR_TRY(reader.read(at, kRecodeBytes));
      if (bytes.empty()) return make_error(Code::kCorrupt, "it ends at byte {} of {}", at, record.size);
      MR_TRY(store::fill(writer, bytes));
      return bytes.size();
    }));
  }
  MR_TRY(store::wait_for<store::ObjectPointer>(
      [&](Done<store::ObjectPointer> moved) { writer.finish({}, std::move(moved)); }));
  return record.size;
}

}  // namespace millrace::cluster
