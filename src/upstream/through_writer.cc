// Sends a PUT on while it is received.
#include "upstream/through_writer.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "net/digest.h"
#include "store/reasons.h"
#include "store/waiting.h"
#include "upstream/remote_object.h"

namespace millrace::upstream {

Writes::Turn::Turn(Writes& writes, std::string bucket, std::string key)
    : writes_(writes), name_(std::move(bucket), std::move(key)) {
  UniqueLock lock(writes_.mutex_);
  writes_.ended_.wait(lock, [this]() MR_REQUIRES(writes_.mutex_) { return !writes_.taken_.contains(name_); });
  writes_.taken_.insert(name_);
}

Writes::Turn::~Turn() {
  const MutexLock lock(writes_.mutex_);
  writes_.taken_.erase(name_);
  writes_.ended_.notify_all();
}

void Writes::add(std::weak_ptr<Write> write) {
  bool stopped = false;
  {
    const MutexLock lock(mutex_);
    std::erase_if(under_way_, [](const std::weak_ptr<Write>& one) { return one.expired(); });
    under_way_.push_back(write);
    stopped = stopped_;
  }
  if (const auto alive = write.lock(); alive && stopped) alive->give_up();
}

void Writes::give_up() {
  std::vector<std::weak_ptr<Write>> all;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    all.swap(under_way_);
  }
  for (const auto& one : all) {
    if (const auto alive = one.lock()) alive->give_up();
  }
}

namespace {

// A client that is faster than the upstream waits.
constexpr size_t kMostQueued = 8 << 20;
// What was sent is kept so far, for a connection that the upstream had closed while it was idle.
constexpr size_t kMostKept = 1 << 20;
constexpr int kMostAttempts = 3;

// What the request's thread and the thread that sends share.
class Passing final : public Writes::Write {
 public:
  Passing(const ThroughLinks& links, std::shared_ptr<const Upstream> upstream, store::PutOptions options)
      : links_(links), upstream_(std::move(upstream)), options_(std::move(options)) {
    if (upstream_->settings.url.starts_with("s3://")) md5_.emplace(net::DigestKind::kMd5);
  }

  // By the request's thread.
  bool is_full() const {
    const MutexLock lock(mutex_);
    return queued_ >= kMostQueued && !failure_;
  }
  Status push(std::string_view bytes);
  Status check() const;
  // The upstream has taken some, or will take no more.
  void when_taken(std::function<void()> ready);
  void finish(std::unique_ptr<store::Writer> writer, store::Finish finish,
              store::Done<store::ObjectPointer> done);
  void give_up() override;

  // By the thread that sends, to the end.
  void run();

 private:
  Result<size_t> read(uint64_t offset, std::span<std::byte> into);
  size_t available() const MR_REQUIRES(mutex_);
  size_t take(std::span<std::byte> into) MR_REQUIRES(mutex_);
  void note_sent(std::string_view bytes);
  uint64_t left_to_send() const;
  Status wait_until_good();
  Status send();
  Status send_once();
  std::vector<net::HeaderField> request_headers() const;
  Result<store::ObjectPointer> store_copy();
  Status check_same(const RemoteHead& head);
  Result<store::ObjectPointer> acknowledge_unstored(const RemoteHead& head, const Error& why);
  void fail(Error error);

  const ThroughLinks links_;
  const std::shared_ptr<const Upstream> upstream_;
  const store::PutOptions options_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::string> queue_ MR_GUARDED_BY(mutex_);
  size_t queued_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t left_ MR_GUARDED_BY(mutex_) = options_.size.value_or(0);  // bytes that were not yet sent
  bool finishing_ MR_GUARDED_BY(mutex_) = false;
  bool given_up_ MR_GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ MR_GUARDED_BY(mutex_);
  std::function<void()> ready_ MR_GUARDED_BY(mutex_);

  // Of the request's thread until finishing_, then of the one that sends.
  std::unique_ptr<store::Writer> writer_;
  store::Finish finish_;
  store::Done<store::ObjectPointer> done_;

  // Of the thread that sends.
  std::optional<net::Digest> md5_;  // where the upstream may know nothing better
  std::string kept_;                // the first bytes that were sent
  bool keeps_all_ = true;           // all of them
  std::optional<Writes::Turn> turn_;
};

Status Passing::check() const {
  const MutexLock lock(mutex_);
  return failure_ ? Status(failure_->copy()) : Status();
}

Status Passing::push(std::string_view bytes) {
  const MutexLock lock(mutex_);
  if (failure_) return failure_->copy();
  queue_.emplace_back(bytes);
  queued_ += bytes.size();
  changed_.notify_all();
  return {};
}

void Passing::when_taken(std::function<void()> ready) {
  {
    const MutexLock lock(mutex_);
    if (queued_ >= kMostQueued && !failure_) {
      ready_ = std::move(ready);
      return;
    }
  }
  ready();
}

void Passing::give_up() {
  const MutexLock lock(mutex_);
  given_up_ = !finishing_;
  changed_.notify_all();
}

void Passing::finish(std::unique_ptr<store::Writer> writer, store::Finish finish,
                     store::Done<store::ObjectPointer> done) {
  std::optional<Error> failure;
  {
    const MutexLock lock(mutex_);
    if (failure_) {
      failure.emplace(failure_->copy());
    } else {
      writer_ = std::move(writer);
      finish_ = std::move(finish);
      done_ = std::move(done);
      finishing_ = true;
      changed_.notify_all();
    }
  }
  if (failure) done(std::move(*failure));
}

uint64_t Passing::left_to_send() const {
  const MutexLock lock(mutex_);
  return left_;
}

// Everything but the last byte as it comes; that one when this write has its turn.
size_t Passing::available() const {
  const size_t held_back = turn_ || queued_ < left_ ? 0 : 1;
  return queued_ - std::min(queued_, held_back);
}

size_t Passing::take(std::span<std::byte> into) {
  size_t got = 0;
  for (size_t most = std::min(into.size(), available()); most > 0;) {
    std::string& first = queue_.front();
    const size_t now = std::min(most, first.size());
    std::memcpy(into.data() + got, first.data(), now);
    if (now == first.size()) {
      queue_.pop_front();
    } else {
      first.erase(0, now);
    }
    got += now;
    most -= now;
  }
  queued_ -= got;
  left_ -= got;
  return got;
}

void Passing::note_sent(std::string_view bytes) {
  if (md5_) md5_->add(bytes);
  keeps_all_ = keeps_all_ && kept_.size() + bytes.size() <= kMostKept;
  if (keeps_all_) kept_ += bytes;
}

Result<size_t> Passing::read(uint64_t offset, std::span<std::byte> into) {
  if (keeps_all_ && offset < kept_.size()) {
    const std::string_view again = std::string_view(kept_).substr(offset, into.size());
    std::memcpy(into.data(), again.data(), again.size());
    return again.size();
  }
  if (left_to_send() == 1) MR_TRY(wait_until_good());
  size_t got = 0;
  std::function<void()> ready;
  {
    UniqueLock lock(mutex_);
    changed_.wait(lock, [this]() MR_REQUIRES(mutex_) { return given_up_ || available() > 0; });
    if (given_up_) return make_error(Code::kCancelled, "the request ended before its body was complete");
    got = take(into);
    if (queued_ < kMostQueued) ready = std::exchange(ready_, nullptr);
  }
  note_sent({reinterpret_cast<const char*>(into.data()), got});
  if (ready) ready();
  return got;
}

// Until all checks of the request have passed; then this write has its turn.
Status Passing::wait_until_good() {
  {
    UniqueLock lock(mutex_);
    changed_.wait(lock, [this]() MR_REQUIRES(mutex_) { return given_up_ || finishing_; });
    if (given_up_) return make_error(Code::kCancelled, "the request ended");
  }
  if (!turn_) turn_.emplace(links_.writes, options_.bucket, options_.key);
  return {};
}

std::vector<net::HeaderField> Passing::request_headers() const {
  std::vector<net::HeaderField> headers = options_.headers;
  const store::Condition& condition = options_.condition;
  if (condition.only_if_absent) headers.emplace_back("if-none-match", "*");
  if (condition.only_if_etag) {
    const bool any = *condition.only_if_etag == "*";
    headers.emplace_back("if-match", any ? "*" : "\"" + *condition.only_if_etag + "\"");
  }
  add_tagging(headers, options_.tags);
  return headers;
}

Status Passing::send_once() {
  Remote& remote = *upstream_->remote;
  if (*options_.size == 0) {
    MR_TRY(wait_until_good());
    return remote.put(options_.key, std::string_view(), request_headers());
  }
  net::GeneratedBody body;
  body.size = *options_.size;
  body.read = [this](uint64_t offset, std::span<std::byte> into) { return read(offset, into); };
  return remote.put(options_.key, std::move(body), request_headers());
}

Status Passing::send() {
  for (int attempt = 1;; ++attempt) {
    Status sent = send_once();
    // Done twice, a write with a condition would refuse itself.
    const bool repeatable = keeps_all_ && !options_.condition.is_any() && attempt < kMostAttempts;
    if (sent || !repeatable || !sent.error().is(store::kUpstreamAway)) return sent;
  }
}

void Passing::run() {
  const Status sent = send();
  if (!sent) return fail(sent.error().copy());
  auto stored = store_copy();
  links_.fetches.leave(options_.bucket, options_.key);
  turn_.reset();
  done_(std::move(stored));
}

void Passing::fail(Error error) {
  store::Done<store::ObjectPointer> done;
  std::function<void()> ready;
  {
    const MutexLock lock(mutex_);
    failure_.emplace(error.copy());
    ready = std::exchange(ready_, nullptr);
    if (finishing_) done = std::move(done_);
  }
  writer_.reset();
  turn_.reset();
  if (ready) ready();
  if (done) done(std::move(error));
}

Status Passing::check_same(const RemoteHead& head) {
  const std::string name = upstream_->remote->name();
  if (head.size != *options_.size)
    return make_error(store::kUpstreamChanged, "upstream {}: {} has {} bytes after {} were written", name,
                      options_.key, head.size, *options_.size);
  const bool is_crc = head.checksum && head.checksum->kind == net::DigestKind::kCrc32c;
  const bool is_md5 = head.checksum && head.checksum->kind == net::DigestKind::kMd5 && md5_;
  if (!is_crc && !is_md5) return {};
  const std::string actual = is_crc ? crc32c_bytes(writer_->crc32c()) : md5_->finish();
  if (actual == head.checksum->value) return {};
  return make_error(store::kUpstreamChanged, "upstream {}: {} has another checksum than what was written",
                    name, options_.key);
}

Result<store::ObjectPointer> Passing::store_copy() {
  auto found = upstream_->remote->find_head(options_.key);
  if (!found) return found.take_error();
  if (!*found)
    return make_error(store::kUpstreamChanged, "upstream {}: {} is gone right after it was written",
                      upstream_->remote->name(), options_.key);
  const RemoteHead& head = **found;
  if (const Status same = check_same(head); !same) return acknowledge_unstored(head, same.error());
  finish_.etag = shown_etag(head);
  finish_.headers.emplace_back(store::kUpstreamVersion, head.version.empty() ? "unknown" : head.version);
  auto stored = store::wait_for<store::ObjectPointer>(
      [&](store::Done<store::ObjectPointer> done) { writer_->finish(std::move(finish_), std::move(done)); });
  if (stored) return stored;
  return acknowledge_unstored(head, stored.error());
}

// What is stored here is older than what the upstream has: it goes.
Result<store::ObjectPointer> Passing::acknowledge_unstored(const RemoteHead& head, const Error& why) {
  writer_.reset();
  links_.log.warn("an object that an upstream took was not stored", "bucket", options_.bucket, "key",
                  options_.key, "error", why.message());
  MR_TRY(store::wait_for<void>([&](store::Done<void> done) {
    links_.objects.remove(options_.bucket, options_.key, {}, std::move(done));
  }));
  return store::ObjectPointer(std::make_shared<const RemoteObject>(
      options_.bucket, options_.key, upstream_->remote, head, store::Condition()));
}

class ThroughWriter final : public store::Writer {
 public:
  ThroughWriter(std::unique_ptr<store::Writer> writer, std::shared_ptr<Passing> passing)
      : writer_(std::move(writer)), passing_(std::move(passing)) {}
  ~ThroughWriter() override { passing_->give_up(); }

  std::span<std::byte> space() override {
    space_ = passing_->is_full() ? std::span<std::byte>() : writer_->space();
    return space_;
  }
  Status advance(size_t bytes) override {
    if (bytes > 0) MR_TRY(passing_->push({reinterpret_cast<const char*>(space_.data()), bytes}));
    if (bytes == 0) MR_TRY(passing_->check());
    bytes_ += bytes;
    return writer_->advance(bytes);
  }
  void when_space(std::function<void()> ready) override {
    if (passing_->is_full()) return passing_->when_taken(std::move(ready));
    writer_->when_space(std::move(ready));
  }
  Status set_aside() override { return writer_->set_aside(); }
  uint64_t bytes() const override { return bytes_; }
  uint32_t crc32c() const override { return crc32c_ ? *crc32c_ : writer_->crc32c(); }
  void finish(store::Finish finish, store::Done<store::ObjectPointer> done) override {
    crc32c_ = writer_->crc32c();
    passing_->finish(std::move(writer_), std::move(finish), std::move(done));
  }

 private:
  std::unique_ptr<store::Writer> writer_;
  const std::shared_ptr<Passing> passing_;
  std::span<std::byte> space_;
  uint64_t bytes_ = 0;
  std::optional<uint32_t> crc32c_;
};

}  // namespace

Result<std::unique_ptr<store::Writer>> open_through_writer(const ThroughLinks& links,
                                                           std::shared_ptr<const Upstream> upstream,
                                                           store::PutOptions options) {
  if (!options.size)
    return make_error(Code::kInvalid, "the length of an object must be known before it is written through")
        .with_hint("send Content-Length, or x-amz-decoded-content-length");
  const store::Condition& condition = options.condition;
  if (condition.only_if_size || condition.only_if_modified_ms)
    return make_error(Code::kUnsupported,
                      "upstreams do not know this condition: If-Match and If-None-Match do");
  store::PutOptions here = options;
  here.condition = {};
  auto writer = MR_TRY(links.objects.put(std::move(here)));
  auto passing = std::make_shared<Passing>(links, std::move(upstream), std::move(options));
  links.writes.add(passing);
  if (!links.workers.submit([passing] { passing->run(); }))
    return make_error(Code::kUnavailable, "too many writes to upstreams are waiting");
  return std::unique_ptr<store::Writer>(
      std::make_unique<ThroughWriter>(std::move(writer), std::move(passing)));
}

}  // namespace millrace::upstream
