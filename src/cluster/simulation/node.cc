// A process with made-up surroundings: strand, peers, membership, drives.
#include "cluster/simulation/node.h"

#include <utility>

#include "base/assert.h"

namespace millrace::cluster::simulation {

constexpr uint64_t kGraceUs = 3'000'000;
constexpr uint64_t kKeepReplacedUs = 5'000'000;

// One life of a node. After its end nothing of it runs any more.
class Process final : public Strand, public Peers, public Membership, public Shelf, public SliceBuilder {
 public:
  Process(World& world, uint32_t number, std::string name, Drives& drives)
      : world_(world),
        number_(number),
        name_(std::move(name)),
        drives_(drives),
        maps_(world.newest_maps()),
        protocol_({*this, *this, *this, *this}) {}

  void start() {
    renew();
    watch();
    MenderOptions mending;
    mending.grace_us = kGraceUs;
    protocol_.mender().set_builder(*this, mending);
    protocol_.mender().adopt_map();
    WalkerOptions walking;
    walking.page = 2;
    walking.retry_us = 2'000'000;
    walking.again_us = 10'000'000;
    walking.litter_us = 20'000'000;
    protocol_.walker().start(walking);
  }
  void end() { ended_ = true; }

  Protocol& protocol() { return protocol_; }

  // Strand.
  void post(std::function<void()> work) override { after(0, std::move(work)); }
  void after(uint64_t us, std::function<void()> work) override {
    world_.after(us, [self = this, work = std::move(work)] {
      if (!self->ended_) work();
    });
  }
  uint64_t now_us() const override { return world_.now(); }
  uint64_t random() override { return world_.random().next(); }

  // Peers.
  void call(uint32_t node, Request request, Done<Reply> done) override {
    const auto pending = std::make_shared<Done<Reply>>(std::move(done));
    const auto answer = [pending](Result<Reply> reply) {
      if (*pending) std::exchange(*pending, nullptr)(std::move(reply));
    };
    after(Node::kCallUs, [answer] { answer(make_error(Code::kUnavailable, "no answer")); });
    world_.deliver(number_, node, encode_request(request).joined(), [self = this, answer](std::string bytes) {
      if (!self->ended_) answer(decode_reply(bytes));
    });
  }

  // Membership.
  uint32_t self() const override { return number_; }
  std::shared_ptr<const Maps> maps() const override { return maps_; }
  // As Member has it: only while the newest map that it knows names its session.
  bool has_lease() const override {
    return world_.now() < lease_end_ && maps_->back()->find_node(number_)->process == name_;
  }
  void look_again() override {
    after(world_.delay(), [this] { read_map(); });
  }
  Result<Redundancy> redundancy(const std::string&) const override { return world_.scene().redundancy; }
  void note_walked(Walked walked) override {
    after(world_.delay(), [this, walked] {
      if (!world_.is_cut(number_, 0)) world_.note_walked(number_, name_, walked);
    });
  }

  // SliceBuilder. It reads k other slices, which must be there, and sends the new one.
  void build(Order order, Done<uint64_t> done) override {
    after(world_.delay(), [this, order = std::move(order), done = std::move(done)] {
      if (world_.count_slices(order.name, order.record.spread) < order.record.spread.k)
        return done(make_error(Code::kUnavailable, "too few slices"));
      const uint32_t node = maps_->back()->node_of(order.drive)->number;
      call(node, PrepareRequest{order.drive, order.name, order.spread, "x", false},
           [done](Result<Reply> reply) {
             if (!reply) return done(reply.take_error());
             done(uint64_t{1});
           });
    });
  }

  void recode(const ObjectName& name, const store::Record& record, Done<uint64_t> done) override {
    after(world_.delay(), [this, name, record, done = std::move(done)] {
      if (world_.count_slices(name, record.spread) < record.spread.k)
        return done(make_error(Code::kUnavailable, "too few slices"));
      auto spread = protocol_.requester().choose_spread(name, Requester::Size::kLarge);
      if (!spread) return done(spread.take_error());
      CommitRequest request{CommitRequest::Kind::kMove, 0, name, record, {}};
      request.record.spread = world_.begin_write(spread.take());
      std::vector<std::string> slices(request.record.spread.holders.size(), "x");
      protocol_.requester().put(std::move(request), std::move(slices), [done](Result<store::Record> moved) {
        if (!moved) return done(moved.take_error());
        done(uint64_t{1});
      });
    });
  }

  // Shelf. A step takes its time, and the process may end before or after it.
  bool in_service(DriveId) const override { return true; }
  void read(DriveId drive, const ObjectName& name, Done<Ledger> done) override {
    after(world_.delay(), [this, drive, name, done = std::move(done)] {
      const auto found = drives_.ledgers.find({drive, name});
      done(found == drives_.ledgers.end() ? Ledger() : found->second);
    });
  }
  void write(DriveId drive, const ObjectName& name, const Ledger& ledger, Haste haste,
             Done<void> done) override {
    step(
        [this, drive, name, ledger, haste] {
          const std::pair place(drive, name);
          if (haste == Haste::kDurable) {
            drives_.before_lazy.erase(place);
          } else {
            drives_.before_lazy.emplace(place, drives_.ledgers[place]);
          }
          drives_.ledgers[place] = ledger;
        },
        std::move(done));
  }
  void list(DriveId drive, const ObjectName& name, size_t limit, Done<std::vector<Row>> done) override {
    after(world_.delay(), [this, drive, name, limit, done = std::move(done)] {
      std::vector<Row> rows;
      auto row = name.key.empty() ? drives_.ledgers.lower_bound({drive, name})
                                  : drives_.ledgers.upper_bound({drive, name});
      for (; row != drives_.ledgers.end() && row->first.first == drive && rows.size() < limit; ++row) {
        rows.push_back({row->first.second, row->second});
      }
      done(std::move(rows));
    });
  }
  void put_slice(DriveId drive, const store::Spread& spread, std::string, Done<void> done) override {
    const Drives::Slice slice(drive, spread.write_id, spread.slot);
    step([this, slice] { drives_.slices.insert(slice); }, std::move(done));
    ++drives_.puts[slice];
  }
  // As in the product: it goes later, unless it is put again before.
  void drop_slice(DriveId drive, const store::Spread& spread) override {
    const Drives::Slice slice(drive, spread.write_id, spread.slot);
    const uint64_t put = drives_.puts[slice];
    dropped_[slice] = put;
    after(kKeepReplacedUs, [this, slice, put] {
      if (drives_.puts[slice] != put || drives_.slices.erase(slice) == 0) return;
      // The removal is in the same log as the ledgers: with it all that was written before is durable.
      std::erase_if(drives_.before_lazy,
                    [&](const auto& entry) { return entry.first.first == std::get<0>(slice); });
    });
  }
  bool is_dropped(DriveId drive, const store::Spread& spread) const override {
    const Drives::Slice slice(drive, spread.write_id, spread.slot);
    const auto dropped = dropped_.find(slice);
    const auto put = drives_.puts.find(slice);
    return dropped != dropped_.end() && put != drives_.puts.end() && dropped->second == put->second;
  }
  uint32_t promised() const override { return drives_.promised; }
  void promise(uint32_t epoch, Done<void> done) override {
    step([this, epoch] { drives_.promised = std::max(drives_.promised, epoch); }, std::move(done));
  }

 private:
  // A crash finds a step done or not: it happens at its moment even if the process ends just then.
  void step(std::function<void()> work, Done<void> done) {
    const uint64_t us = world_.delay();
    world_.after(us, [self = this, work = std::move(work), done = std::move(done)] {
      if (self->ended_) return;
      work();
      self->after(self->world_.delay() / 4, [done] { done({}); });
    });
  }

  void renew() {
    const uint64_t sent = world_.now();
    after(world_.delay(), [this, sent] {
      if (world_.is_cut(number_, 0)) return;
      if (!world_.renew(number_, name_)) {
        // The lease is over, and with it the session: others may act for this node's keys.
        name_ += "+";
        lease_end_ = 0;
        world_.renew(number_, name_);
      }
      lease_end_ = std::max(lease_end_, sent + Node::kLeaseUs);
    });
    after(1'000'000, [this] { renew(); });
  }
  void watch() {
    read_map();
    after(100'000 + world_.random().below(500'000), [this] { watch(); });
  }
  void read_map() {
    if (world_.is_cut(number_, 0)) return;
    const auto newest = world_.newest_maps();
    if (newest->back()->epoch() <= maps_->back()->epoch()) return;
    maps_ = newest;
    protocol_.adopt_map();
  }

  World& world_;
  const uint32_t number_;
  std::string name_;  // of its session
  Drives& drives_;
  std::shared_ptr<const Maps> maps_;
  uint64_t lease_end_ = 0;
  std::map<Drives::Slice, uint64_t> dropped_;  // after how many puts
  bool ended_ = false;
  Protocol protocol_;
};

Node::Node(World& world, uint32_t number) : world_(world), number_(number) {
  for (unsigned i = 0; i < world.scene().drives; ++i)
    map_drives_.push_back({id() + "-" + std::to_string(i), 1.0, DriveStanding::kServing});
}

Node::~Node() = default;

std::vector<unsigned> Node::slots_of(DriveId drive, const ObjectName& name,
                                     const std::string& write_id) const {
  const auto found = durable_.ledgers.find({drive, name});
  if (found == durable_.ledgers.end()) return {};
  std::vector<unsigned> slots = found->second.slots_of(write_id);
  const std::string* bytes = found->second.find_bytes(write_id);
  if (bytes == nullptr || bytes->empty())
    std::erase_if(slots, [&](unsigned slot) { return !durable_.slices.contains({drive, write_id, slot}); });
  return slots;
}

void Node::start() {
  MR_ASSERT(!is_up());
  process_ = std::make_shared<Process>(world_, number_, std::to_string(++starts_), durable_);
  process_->start();
}

void Node::crash() {
  MR_ASSERT(is_up());
  process_->end();
  dead_.push_back(std::exchange(process_, nullptr));
  for (auto& [place, ledger] : durable_.before_lazy) {
    if (world_.one_in(2)) durable_.ledgers[place] = ledger;
  }
  durable_.before_lazy.clear();
}

void Node::wipe() {
  if (is_up()) crash();
  durable_ = {};
}

void Node::handle(const std::string& request, std::function<void(std::string)> answer) {
  if (!is_up()) return;
  Result<Request> decoded = decode_request(request);
  MR_ASSERT(decoded);
  process_->protocol().handle(decoded.take(), [answer = std::move(answer)](Result<Reply> reply) {
    answer(encode_reply(reply).joined());
  });
}

Requester& Node::requester() {
  return process_->protocol().requester();
}

}  // namespace millrace::cluster::simulation
