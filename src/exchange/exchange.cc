// Implements Exchange: plan, lists, bytes, manifest and vote; then the switch, a vote, and the release.
#include "exchange/exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "base/crc.h"
#include "base/fault.h"
#include "exchange/shipment.h"
#include "exchange/simulate.h"

namespace millrace::exchange {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
Result<std::vector<T>> values_of(std::string_view bytes, size_t count) {
  if (bytes.size() != count * sizeof(T))
    return make_error(Code::kCorrupt, "a rank says {} bytes", bytes.size());
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

Exchange::Exchange(std::unique_ptr<Ledger> ledger, std::unique_ptr<Group> group, ExchangeOptions options)
    : ledger_(std::move(ledger)),
      own_group_(std::move(group)),
      group_(*own_group_),
      options_(std::move(options)) {}

Exchange::~Exchange() {
  if (is_under_way()) thread_.join();
  // What cannot be freed now is freed when the store is opened again.
  static_cast<void>(release());
}

Status Exchange::release() {
  if (!release_due_) return {};
  release_due_ = false;
  Status done = ledger_->release();
  stats_.peak_bytes = std::max(stats_.peak_bytes, ledger_->peak_bytes());
  return done;
}

Patience Exchange::patience(std::string_view doing) const {
  return {options_.timeout_ms, doing};
}

Result<std::unique_ptr<Exchange>> Exchange::open(const std::string& directory, Group& group,
                                                 ExchangeOptions options) {
  const uint64_t timeout = options.timeout_ms;
  auto ledger = Ledger::open(directory, options.limits);
  Status opened;
  if (!ledger) opened = ledger.error().copy();
  MR_TRY(vote(group, opened, {timeout, "opening the stores"}));
  // A space of its own: what others ask each other meanwhile, or a second exchange, is never taken for an
  // answer.
  auto own = MR_TRY(group.split(0));
  std::unique_ptr<Exchange> exchange(new Exchange(ledger.take(), std::move(own), std::move(options)));
  MR_TRY(exchange->recover());
  if (!exchange->options_.apart)
    exchange->neighbours_ =
        MR_TRY(Neighbours::meet(exchange->group_, directory, exchange->patience("looking who is near")));
  return exchange;
}

// Whoever has committed shows that all were prepared.
Status Exchange::recover() {
  const Manifest& manifest = ledger_->manifest();
  const Manifest& next = ledger_->is_prepared() ? *ledger_->prepared() : manifest;
  const std::vector<uint64_t> own = {manifest.epoch,          manifest.rank, manifest.samples,
                                     manifest.records.size(), next.epoch,    next.records.size()};
  const std::vector<std::string> all =
      MR_TRY(gather_all(group_, bytes_of(own), patience("opening the stores")));
  uint64_t newest = 0;
  uint64_t held = 0;
  std::vector<std::vector<uint64_t>> ranks;
  for (const std::string& one : all) {
    ranks.push_back(MR_TRY(values_of<uint64_t>(one, own.size())));
    newest = std::max(newest, ranks.back()[0]);
  }
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<uint64_t>& one = ranks[rank];
    if (one[1] != rank)
      return make_error(Code::kInvalid, "rank {} opened the store of rank {}", rank, one[1]);
    if (one[2] != own[2])
      return make_error(Code::kInvalid, "rank {} holds a part of {} samples, rank {} of {}", rank, one[2],
                        group_.rank(), own[2]);
    held += one[0] == newest ? one[3] : one[5];
    if (one[0] != newest && one[4] != newest) {
      return make_error(Code::kCorrupt, "rank {} is at epoch {} and cannot follow the others to epoch {}",
                        rank, one[0], newest)
          .with_hint("its store is an old copy; take in its samples again");
    }
  }
  // Going on with some of the stores would leave the others behind for good. All ranks see the same sum.
  if (held != own[2]) {
    return make_error(Code::kInvalid, "{} ranks hold {} of {} samples: not all stores are here",
                      group_.size(), held, own[2])
        .with_hint(
            "start as many ranks as there are stores, or deal the samples anew: --redeal, or millrace pls "
            "redeal");
  }
  Status moved;
  if (manifest.epoch < newest) {
    moved = ledger_->commit();
  } else {
    moved = ledger_->discard();
  }
  MR_FAULT("exchange.recovered");
  MR_TRY(vote(group_, moved, patience("recovering")));
  return vote(group_, ledger_->release(), patience("recovering"));
}

Result<RankPlan> Exchange::make_plan() {
  const Manifest& manifest = ledger_->manifest();
  const std::vector<Resident> residents = manifest.residents();
  const bool by_label = options_.plan.select == Select::kLabelAware || options_.fraction.is_automatic();
  const uint32_t classes = by_label ? manifest.classes : 0;
  std::string own = bytes_of(std::vector<uint64_t>{residents.size(), manifest.epoch, classes});
  own += bytes_of(count_labels(residents, classes));
  const std::vector<std::string> all = MR_TRY(gather_all(group_, own, patience(doing_)));
  EpochView view;
  view.epoch = manifest.epoch;
  for (const std::string& one : all) {
    if (one.size() < 24) return make_error(Code::kCorrupt, "a rank says {} bytes", one.size());
    const std::vector<uint64_t> head = MR_TRY(values_of<uint64_t>(std::string_view(one).substr(0, 24), 3));
    if (head[1] != manifest.epoch || head[2] != classes)
      return make_error(Code::kInvalid, "ranks disagree about epoch or classes: all need the same settings");
    view.sizes.push_back(head[0]);
    view.labels.push_back(MR_TRY(values_of<uint32_t>(std::string_view(one).substr(24), classes)));
  }
  const LabelBalance balance = measure_balance(view.labels);
  stats_.balance = classes > 0 ? std::optional(balance) : std::nullopt;
  view.fraction = options_.fraction.at(manifest.exchanges(), balance);
  stats_.fraction = view.fraction;
  return Planner(options_.plan, std::move(view)).plan(group_.rank(), residents);
}

Status Exchange::check_arrivals(std::span<const Record> records, std::span<const std::byte> bytes) const {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  uint64_t at = 0;
  for (const Record& record : records) {
    if (crc32c(text.substr(at, record.bytes)) != record.crc)
      return make_error(Code::kCorrupt, "sample {} arrived damaged", record.id);
    at += record.bytes;
  }
  return {};
}

// Only asked when something arrived damaged: was it damaged here already?
Status Exchange::check_leavers(const RankPlan& plan) const {
  for (const Send& send : plan.sends) {
    for (const uint32_t slot : send.slots) MR_TRY(ledger_->store()->check(slot));
  }
  return {};
}

std::vector<Outgoing> Exchange::pack(const RankPlan& plan) const {
  const SampleStore& store = *ledger_->store();
  std::vector<Outgoing> outgoing;
  for (const Send& send : plan.sends) {
    Outgoing& to = outgoing.emplace_back();
    to.to = send.to;
    to.reserve(send.slots.size());
    for (const uint32_t slot : send.slots) {
      const Record& record = store.manifest().records[slot];
      to.add({record.id, record.bytes, record.offset, record.label, record.crc, record.home, record.segment},
             store.blocks(slot));
    }
  }
  return outgoing;
}

// Where what arrives will stay; none where nothing does. All ranks have room, or none goes on.
Result<std::optional<StagedSegment>> Exchange::make_room(Shipment& shipment, uint64_t bytes) {
  std::optional<StagedSegment> staged;
  Status room = shipment.open_segments();
  if (room && bytes > 0) {
    auto made = ledger_->stage(bytes);
    if (made) {
      staged.emplace(made.take());
    } else {
      room = made.take_error();
    }
  }
  MR_TRY(vote(group_, room, patience(doing_)));
  MR_FAULT("exchange.room");
  return staged;
}

// Compares and indexes what arrived, and adds its segment to the manifest.
Status Exchange::seal(std::optional<StagedSegment>& staged, std::vector<Record>& arrivals,
                      const RankPlan& plan, Manifest& next) {
  Status whole = staged ? check_arrivals(arrivals, staged->bytes()) : Status();
  if (whole && staged) {
    auto segment = staged->finish(arrivals);
    if (segment) {
      next.segments.push_back(segment.take());
    } else {
      whole = segment.take_error();
    }
  }
  Status all_whole = vote(group_, whole, patience(doing_));
  if (!all_whole && all_whole.error().code() == Code::kCorrupt)
    MR_TRY(vote(group_, check_leavers(plan), patience(doing_)));
  return all_whole;
}

// Moves the bytes; gives the manifest of the next epoch. Votes where a failure of one must stop all.
Result<Manifest> Exchange::receive(const RankPlan& plan, Shape shape) {
  std::vector<Incoming> incoming;
  for (const Receive& receive : plan.receives) incoming.push_back({receive.from, receive.slots.size()});
  const auto start = Clock::now();
  Shipment shipment(group_, pack(plan), std::move(incoming), patience(doing_));
  shipment.use(gather_pool_);
  shipment.use(neighbours_);
  const auto lists = MR_TRY(shipment.exchange_lists());
  MR_FAULT("exchange.listed");
  Manifest next = ledger_->store()->manifest();
  ++next.epoch;
  next.generation = 0;
  next.world = shape.world;
  next.redeals = shape.redeals;
  std::vector<Record> arrivals;
  uint64_t bytes = 0;
  for (const auto& list : lists) {
    for (const Parcel& parcel : list) {
      arrivals.push_back({parcel.id, 0, parcel.bytes, parcel.label, static_cast<uint32_t>(next.epoch),
                          parcel.crc, 0, 0, parcel.home});
      bytes += parcel.bytes;
    }
  }
  std::optional<StagedSegment> staged = MR_TRY(make_room(shipment, bytes));
  MR_TRY(shipment.exchange_samples(staged ? staged->bytes() : std::span<std::byte>()));
  MR_FAULT("exchange.arrived");
  stats_.transfer_seconds += since(start);
  stats_.messages += shipment.messages();
  stats_.bytes_sent += shipment.bytes_sent();
  stats_.bytes_received += bytes;
  const auto checking = Clock::now();
  MR_TRY(seal(staged, arrivals, plan, next));
  next.records = apply_plan<Record>(plan, std::move(next.records), arrivals);
  std::set<uint32_t> used;
  for (const Record& record : next.records) used.insert(record.segment);
  std::erase_if(next.segments, [&](const Segment& one) { return !used.contains(one.number); });
  stats_.prepare_seconds += since(checking);
  stats_.samples_sent += plan.sent();
  stats_.samples_received += plan.received();
  return next;
}

Status Exchange::run(const RankPlan& plan, Shape shape) {
  MR_FAULT("exchange.planned");
  Manifest next = MR_TRY(receive(plan, shape));
  const auto start = Clock::now();
  const Status prepared = ledger_->prepare(std::move(next));
  stats_.prepare_seconds += since(start);
  MR_TRY(vote(group_, prepared, patience(doing_)));
  MR_FAULT("exchange.all_prepared");
  return {};
}

Status Exchange::begin() {
  if (is_under_way())
    return make_error(Code::kInvalid, "an exchange is under way already: commit or cancel it first");
  doing_ = fmt::format("exchanging samples of epoch {}", epoch());
  if (ledger_->is_prepared())
    return make_error(Code::kInvalid, "an exchange is prepared already: commit it first");
  thread_ = std::jthread([this] {
    // Not in commit(), where the trainer would wait for it.
    Status planned = release();
    auto plan = make_plan();
    // A plan fails alike everywhere but for a callback's nonsense, so it is voted on.
    if (planned && !plan) planned = plan.error().copy();
    prepared_ = vote(group_, planned, patience(doing_));
    if (prepared_) prepared_ = run(*plan, {ledger_->manifest().world, ledger_->manifest().redeals});
  });
  return {};
}

Status Exchange::finish() {
  if (!prepared_) {
    const Error failure = prepared_.error().copy();
    MR_TRY(ledger_->discard());
    return failure.copy().within(doing_);
  }
  doing_ = fmt::format("committing epoch {}", epoch() + 1);
  MR_TRY(agree({}));
  MR_TRY(ledger_->commit());
  MR_TRY(vote(group_, {}, patience(doing_)));
  MR_FAULT("exchange.all_committed");
  release_due_ = true;
  stats_.peak_bytes = std::max(stats_.peak_bytes, ledger_->peak_bytes());
  ++stats_.epochs;
  return {};
}

// All commit, or all drop what was prepared. Where it is not known what the others do it stays, for
// recover().
Status Exchange::agree(const Status& own) {
  Status all = vote(group_, own, patience(doing_));
  if (!all && all.error().code() == Code::kCancelled) MR_TRY(ledger_->discard());
  return all;
}

Status Exchange::commit() {
  if (!is_under_way())
    return make_error(Code::kInvalid, "there is nothing to commit: begin an exchange first");
  const auto start = Clock::now();
  thread_.join();
  Status done = finish();
  stats_.exposed_seconds += since(start);
  return done;
}

Status Exchange::cancel() {
  if (!is_under_way()) return {};
  thread_.join();
  if (!prepared_) return ledger_->discard();
  doing_ = fmt::format("dropping the exchange of epoch {}", epoch());
  Status told = agree(make_error(Code::kCancelled, "the exchange was dropped"));
  if (told.error().code() == Code::kCancelled) return {};
  return told;
}

Result<Exchange::Digest> Exchange::digest() {
  const Manifest& manifest = ledger_->manifest();
  const std::vector<uint64_t> own = {owner_share(group_.rank(), manifest.residents()),
                                     content_share(manifest.records), manifest.records.size()};
  Digest digest;
  for (const std::string& one : MR_TRY(gather_all(group_, bytes_of(own), patience("counting samples")))) {
    const std::vector<uint64_t> said = MR_TRY(values_of<uint64_t>(one, own.size()));
    digest.owners += said[0];
    digest.contents += said[1];
    digest.samples += said[2];
  }
  return digest;
}

Status Exchange::redeal(uint32_t world) {
  MR_TRY(release());
  if (world == 0 || world > group_.size())
    return make_error(Code::kInvalid, "{} ranks cannot be dealt to by {}", world, group_.size());
  doing_ = fmt::format("dealing to {} ranks", world);
  const std::vector<uint64_t> own = {ledger_->manifest().records.size()};
  std::vector<uint64_t> sizes;
  for (const std::string& one : MR_TRY(gather_all(group_, bytes_of(own), patience(doing_))))
    sizes.push_back(MR_TRY(values_of<uint64_t>(one, 1)).front());
  prepared_ = run(plan_redeal(group_.rank(), sizes, world), {world, ledger_->manifest().redeals + 1});
  MR_TRY(finish());
  return release();
}

}  // namespace millrace::exchange
