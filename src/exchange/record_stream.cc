// Implements RecordStreams. A record is a size, then as many bytes; size 0 is the end.
#include "exchange/record_stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "base/assert.h"

namespace millrace::exchange {

namespace {

using Clock = std::chrono::steady_clock;

struct RecordHead {
  uint64_t order_bytes;
  uint64_t block_bytes;
  uint64_t shard;
  uint64_t ordinal;
};

constexpr size_t kUnderWay = 4;  // messages to one rank
constexpr uint64_t kAllBuffers = 64 << 20;

uint64_t message_bytes(uint32_t ranks) {
  return std::clamp<uint64_t>(kAllBuffers / (ranks * (kUnderWay + 1)), 64 << 10, 1 << 20);
}

}  // namespace

void append_record(std::string& to, const shard::RunRecord& record) {
  const RecordHead head{record.order.size(), record.blocks.size(), record.place.shard, record.place.ordinal};
  to.append(reinterpret_cast<const char*>(&head), sizeof head);
  to += record.order;
  to += record.blocks;
}

Status each_record(std::string_view message, const std::function<Status(const shard::RunRecord&)>& take) {
  while (!message.empty()) {
    RecordHead head;
    if (message.size() < sizeof head) return make_error(Code::kCorrupt, "a message of records is cut short");
    std::memcpy(&head, message.data(), sizeof head);
    message.remove_prefix(sizeof head);
    if (head.order_bytes > message.size() || head.block_bytes > message.size() - head.order_bytes)
      return make_error(Code::kCorrupt, "a message of records is cut short");
    const std::string_view order = message.substr(0, head.order_bytes);
    const std::string_view blocks = message.substr(head.order_bytes, head.block_bytes);
    message.remove_prefix(head.order_bytes + head.block_bytes);
    MR_TRY(take({order, {head.shard, head.ordinal}, blocks}));
  }
  return {};
}

struct RecordStreams::State {
  struct Message {
    uint64_t size = 0;
    std::string bytes;
    std::vector<Group::Request> requests;
  };
  struct Sending {
    std::string gathered;
    std::deque<std::unique_ptr<Message>> under_way;
  };
  struct Receiving {
    uint32_t from = 0;
    uint64_t size = 0;
    std::string bytes;
    Group::Request request = 0;
    enum { kIdle, kSize, kBytes, kEnded } step = kIdle;
  };
  std::map<uint32_t, Sending> sending;
  std::vector<Receiving> receiving;
  Hearing hearing = Hearing::kAtOnce;
  uint64_t message_bytes = 0;
};

RecordStreams::RecordStreams(Group& group, std::vector<uint32_t> from, Hearing hearing, Take take)
    : group_(group), take_(std::move(take)), state_(std::make_shared<State>()) {
  state_->hearing = hearing;
  state_->message_bytes = message_bytes(group.size());
  for (const uint32_t rank : from) {
    state_->receiving.emplace_back();
    state_->receiving.back().from = rank;
  }
}

RecordStreams::~RecordStreams() {
  if (!finished_) group_.keep(state_);
}

std::string RecordStreams::waiting_for() const {
  std::string text;
  for (const auto& [rank, one] : state_->sending) {
    if (!one.under_way.empty()) text += fmt::format(" {}", rank);
  }
  for (const State::Receiving& one : state_->receiving) {
    if (one.step != State::Receiving::kEnded) text += fmt::format(" {}", one.from);
  }
  return text;
}

Status RecordStreams::wait_until(const std::function<bool()>& done) {
  Clock::time_point moved = Clock::now();
  uint64_t before = moved_;
  int idle = 0;
  while (!done()) {
    MR_TRY(progress());
    if (moved_ != before) {
      before = moved_;
      moved = Clock::now();
      idle = 0;
    }
    if (++idle < 64) {
      std::this_thread::yield();
      continue;
    }
    if (Clock::now() - moved > std::chrono::milliseconds(patience_.timeout_ms)) {
      return make_error(Code::kUnavailable, "nothing moved for {:.1f} s while {}: waiting for rank{}",
                        static_cast<double>(patience_.timeout_ms) / 1000, patience_.doing, waiting_for());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return {};
}

Status RecordStreams::post(uint32_t to) {
  State::Sending& sending = state_->sending[to];
  auto message = std::make_unique<State::Message>();
  message->bytes = std::exchange(sending.gathered, {});
  message->size = message->bytes.size();
  if (message->size > kMaxMessage)
    return make_error(Code::kTooLarge, "a sample of {} bytes cannot be sent to another rank", message->size);
  const std::string_view size(reinterpret_cast<const char*>(&message->size), sizeof message->size);
  message->requests.push_back(MR_TRY(group_.send(to, Tag::kRecordSize, size)));
  if (message->size > 0) message->requests.push_back(MR_TRY(group_.send(to, Tag::kRecords, message->bytes)));
  bytes_sent_ += size.size() + message->size;
  sending.under_way.push_back(std::move(message));
  return {};
}

Status RecordStreams::give(uint32_t to, const shard::RunRecord& record) {
  State::Sending& sending = state_->sending[to];
  if (!sending.gathered.empty() && sending.gathered.size() + record.blocks.size() > state_->message_bytes) {
    if (sending.under_way.size() >= kUnderWay)
      MR_TRY(wait_until([&] { return sending.under_way.size() < kUnderWay; }));
    MR_TRY(post(to));
    MR_TRY(progress());
    sending.gathered.reserve(state_->message_bytes);
  }
  append_record(sending.gathered, record);
  return {};
}

Status RecordStreams::progress() {
  MR_TRY(progress_sends());
  return progress_receives();
}

Status RecordStreams::progress_sends() {
  for (auto& [rank, sending] : state_->sending) {
    while (!sending.under_way.empty()) {
      std::vector<Group::Request>& requests = sending.under_way.front()->requests;
      while (!requests.empty() && MR_TRY(group_.test(requests.back()))) requests.pop_back();
      if (!requests.empty()) break;
      sending.under_way.pop_front();
      ++moved_;
    }
  }
  return {};
}

Status RecordStreams::progress_receives() {
  using Receiving = State::Receiving;
  for (Receiving& one : state_->receiving) {
    if (one.step == Receiving::kEnded) continue;
    if (one.step == Receiving::kIdle) {
      one.request =
          MR_TRY(group_.receive(one.from, Tag::kRecordSize, std::as_writable_bytes(std::span(&one.size, 1))));
      one.step = Receiving::kSize;
    }
    while (MR_TRY(group_.test(one.request))) {
      ++moved_;
      if (one.step == Receiving::kSize && one.size == 0) {
        one.step = Receiving::kEnded;
        break;
      }
      if (one.step == Receiving::kSize) {
        if (one.size > kMaxMessage)
          return make_error(Code::kCorrupt, "rank {} announces {} bytes", one.from, one.size);
        one.bytes.resize(one.size);
        one.request =
            MR_TRY(group_.receive(one.from, Tag::kRecords, std::as_writable_bytes(std::span(one.bytes))));
        one.step = Receiving::kBytes;
        continue;
      }
      if (taken_) taken_ = each_record(one.bytes, take_);
      one.request =
          MR_TRY(group_.receive(one.from, Tag::kRecordSize, std::as_writable_bytes(std::span(&one.size, 1))));
      one.step = Receiving::kSize;
    }
    if (state_->hearing == Hearing::kInTurn && one.step != Receiving::kEnded) break;
  }
  return {};
}

Status RecordStreams::finish(const std::vector<uint32_t>& to) {
  for (const uint32_t rank : to) {
    if (!state_->sending[rank].gathered.empty()) MR_TRY(post(rank));
    MR_TRY(post(rank));  // the end
  }
  MR_TRY(wait_until([&] {
    return std::ranges::all_of(state_->sending,
                               [](const auto& one) { return one.second.under_way.empty(); }) &&
           std::ranges::all_of(state_->receiving,
                               [](const auto& one) { return one.step == State::Receiving::kEnded; });
  }));
  finished_ = true;
  return std::move(taken_);
}

}  // namespace millrace::exchange
