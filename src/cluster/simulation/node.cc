// A process with made-up surroundings: strand, peers, membership, drives.
#include "cluster/simulation/node.h"

#include <utility>

#include "base/assert.h"

namespace millrace::cluster::simulation {

// One life of a node. After its end nothing of it runs any more.
class Process final : public Strand, public Peers, public Membership, public Shelf {
 public:
  Process(World& world, uint32_t number, std::string name, Drives& drives)
      : world_(world),
        number_(number),
        name_(std::move(name)),
        drives_(drives),
        maps_(world.newest_maps()),
        holder_(*this, *this),
        home_(*this, *this, *this, holder_),
        requester_(*this, *this, *this) {}

  void start() {
    renew();
    watch();
  }
  void end() { ended_ = true; }

  Requester& requester() { return requester_; }

  void handle(const Request& request, Done<Reply> done) {
    struct Dispatch {
      Process& self;
      Done<Reply> done;
      void operator()(const PrepareRequest& one) { self.holder_.prepare(one, done); }
      void operator()(const StateRequest& one) { self.holder_.tell(one, done); }
      void operator()(const MarkRequest& one) { self.holder_.mark(one, done); }
      void operator()(const CompleteRequest& one) { self.holder_.complete(one, done); }
      void operator()(const CommitRequest& one) { self.home_.commit(one, done); }
      void operator()(const FindRequest& one) { self.home_.find(one, done); }
    };
    std::visit(Dispatch{*this, std::move(done)}, request);
  }

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
    world_.deliver(number_, node, encode_request(request), [self = this, answer](std::string bytes) {
      if (!self->ended_) answer(decode_reply(bytes));
    });
  }

  // Membership.
  uint32_t self() const override { return number_; }
  std::shared_ptr<const Maps> maps() const override { return maps_; }
  bool has_lease() const override { return world_.now() < lease_end_; }
  void look_again() override {
    after(world_.delay(), [this] { read_map(); });
  }
  Result<Redundancy> redundancy(const std::string&) const override { return world_.scene().redundancy; }

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
  void put_slice(DriveId drive, const store::Spread& spread, std::string, Done<void> done) override {
    step([this, drive, id = spread.write_id] { drives_.slices.insert({drive, id}); }, std::move(done));
  }
  void drop_slice(DriveId drive, const store::Spread& spread) override {
    step([this, drive, id = spread.write_id] { drives_.slices.erase({drive, id}); }, [](Status) {});
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
      if (world_.is_cut(number_, 0) || !world_.renew(number_, name_)) return;
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
    home_.adopt_map();
  }

  World& world_;
  const uint32_t number_;
  const std::string name_;
  Drives& drives_;
  std::shared_ptr<const Maps> maps_;
  uint64_t lease_end_ = 0;
  bool ended_ = false;
  Holder holder_;
  Home home_;
  Requester requester_;
};

Node::Node(World& world, uint32_t number) : world_(world), number_(number) {
  for (unsigned i = 0; i < world.scene().drives; ++i)
    map_drives_.push_back({id() + "-" + std::to_string(i), 1.0, DriveStanding::kServing});
}

Node::~Node() = default;

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
  process_->handle(*decoded,
                   [answer = std::move(answer)](Result<Reply> reply) { answer(encode_reply(reply)); });
}

Requester& Node::requester() {
  return process_->requester();
}

}  // namespace millrace::cluster::simulation
