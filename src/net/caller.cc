// Sends requests: heads, signatures, redirects, and when a failure is tried again.
#include "net/caller.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/number.h"
#include "base/random.h"
#include "base/text.h"
#include "net/digest.h"

namespace millrace::net {

namespace {

bool may_pass(int status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

bool is_away(const Result<AsyncResponse>& answer) {
  if (!answer) return answer.error().code() == Code::kUnavailable;
  return answer->status() == 502 || answer->status() == 503 || answer->status() == 504;
}

uint64_t random_seed() {
  uint64_t seed = 0;
  std::memcpy(&seed, random_bytes(sizeof seed).data(), sizeof seed);
  return seed;
}

// Threads that failed together must not come back together: half of each pause is chance.
int64_t pause_before(int attempt, const AsyncResponse* answer) {
  if (answer != nullptr) {
    if (const std::string* after = answer->find_header("retry-after")) {
      const auto seconds = parse_number<int64_t>(*after);
      // Also one that always says 0 is not asked faster and faster.
      const int64_t least = std::min(kFirstPauseMs / 10 * attempt, kLongestPauseMs);
      if (seconds && *seconds >= 0)
        return std::max(least, std::min(*seconds, kLongestRetryAfterMs / 1000) * 1000);
    }
  }
  const int64_t pause = std::min(kFirstPauseMs << std::min(attempt, 16), kLongestPauseMs);
  thread_local Random random(random_seed());
  return pause / 2 + static_cast<int64_t>(random.below(static_cast<uint64_t>(pause / 2) + 1));
}

Timeouts hurried(Timeouts timeouts) {
  const auto at_most = [](int64_t& ms, int64_t most) { ms = ms <= 0 ? most : std::min(ms, most); };
  at_most(timeouts.connect_ms, kHurriedConnectMs);
  at_most(timeouts.first_byte_ms, kHurriedFirstByteMs);
  return timeouts;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 307 || status == 308;
}

Result<Url> redirected(const Url& from, const std::string& location) {
  if (location.starts_with('/') && !location.starts_with("//")) {
    Url base = from;
    base.path = "/";
    base.query.clear();
    std::string text = base.text();
    text.pop_back();
    return parse_url(text + location);
  }
  Url to = MR_TRY(parse_url(location));
  if (to.scheme != "http" && to.scheme != "https")
    return make_error(Code::kDenied, "redirected to {}", printable(location));
  if (from.scheme == "https" && to.scheme == "http")
    return make_error(Code::kDenied, "redirected from https to {}", printable(location));
  return to;
}

Task<Status> send_generated(Stream& stream, std::string_view head, const GeneratedBody& body) {
  std::vector<std::byte> buffer(std::min<uint64_t>(body.size, kReadBytes));
  auto begun = co_await stream.write_all(head);
  if (!begun) co_return begun.take_error();
  for (uint64_t offset = 0; offset < body.size;) {
    const size_t most = std::min<uint64_t>(buffer.size(), body.size - offset);
    auto got = body.read(offset, std::span(buffer).first(most));
    if (!got) co_return got.take_error();
    if (*got == 0)
      co_return make_error(Code::kTruncated, "the body ends at byte {} of {}", offset, body.size);
    const std::string_view made(reinterpret_cast<const char*>(buffer.data()), *got);
    auto written = co_await stream.write_all(made);
    if (!written) co_return written.take_error();
    offset += *got;
  }
  co_return Status();
}

Task<Status> send_range(Stream& stream, std::string_view head, const FileRange& range) {
  auto begun = co_await stream.write_all(head, range.size > 0 ? Stream::More::kYes : Stream::More::kNo);
  if (!begun) co_return begun.take_error();
  auto sent = co_await stream.send_file(range.file->descriptor(), range.offset, range.size);
  if (!sent && sent.error().code() == Code::kTruncated)
    co_return sent.take_error().within(range.file->name());
  co_return sent;
}

Task<Status> send_two(Stream& stream, std::string_view head, TwoViews body) {
  const std::string begin = std::string(head).append(body.first);
  co_return co_await stream.write_both(begin, body.second);
}

Task<Status> send_request(Stream& stream, std::string_view head, const RequestBody& body) {
  if (const auto* bytes = std::get_if<std::string_view>(&body)) return stream.write_both(head, *bytes);
  if (const auto* both = std::get_if<TwoViews>(&body)) return send_two(stream, head, *both);
  if (const auto* range = std::get_if<FileRange>(&body)) return send_range(stream, head, *range);
  return send_generated(stream, head, std::get<GeneratedBody>(body));
}

}  // namespace

Task<Result<Lease>> Caller::take_connection(const std::string& place, Cancellation* scope) {
  while (true) {
    auto lease = pool_->try_take(place);
    if (lease) co_return std::move(*lease);
    auto waited = co_await wait_for_slot(place, scope);
    if (!waited) co_return waited.take_error();
  }
}

Task<Result<AsyncResponse>> Caller::send_once(const Request& request,
                                              const std::optional<Credentials>& credentials, Haste haste,
                                              Cancellation* scope) {
  const Timeouts timeouts = haste == Haste::kHurried ? hurried(options_.timeouts) : options_.timeouts;
  const auto head = head_text(request, options_.user_agent, credentials);
  if (!head) co_return head.error().copy();
  const std::string place = place_of(request.url);
  for (bool fresh = false;; fresh = true) {
    auto lease = co_await take_connection(place, scope);
    if (!lease) co_return lease.take_error();
    const bool reused = lease->stream != nullptr;
    if (reused) lease->stream->attach(scope);
    if (!reused) {
      auto opened = co_await open(request.url, timeouts, scope);
      if (!opened) co_return opened.take_error();
      lease->stream = opened.take();
    }
    auto sent = co_await send_request(*lease->stream, *head, request.body);
    if (!sent && sent.error().code() != Code::kUnavailable) co_return sent.take_error();
    // A server that refuses a body may answer before it has read it all: the answer says more than our
    // failure.
    const auto keep = sent ? AsyncResponse::Keep::kIfInStep : AsyncResponse::Keep::kNever;
    auto response = co_await AsyncResponse::receive(lease.take(), request.method, timeouts, keep);
    if (response) co_return response;
    // The server may have closed a kept connection just as we used it: that is no failure of the server.
    const bool gone = response.error().code() == Code::kUnavailable;
    const bool given_up = scope != nullptr && scope->is_cancelled();
    if (reused && !fresh && gone && !given_up && may_repeat(request)) continue;
    co_return sent ? response.take_error() : sent.take_error();
  }
}

Task<Result<AsyncResponse>> Caller::send_with_retries(const Request& request,
                                                      const std::optional<Credentials>& credentials,
                                                      Cancellation* scope) {
  const std::string place = place_of(request.url);
  const uint64_t patient_until_us = steady_us() + static_cast<uint64_t>(options_.patience_ms) * 1000;
  for (int attempt = 0;; ++attempt) {
    auto response = co_await send_once(request, credentials, Haste::kPatient, scope);
    const bool away = is_away(response);
    if (response && !away) pool_->note_answer(place);
    const bool waited_for = away && steady_us() < patient_until_us && pool_->has_answered(place);
    const bool last = !may_repeat(request) || (attempt + 1 >= options_.most_attempts && !waited_for);
    if (response && (last || !may_pass(response->status()))) co_return response;
    if (!response && (last || response.error().code() != Code::kUnavailable)) co_return response;
    const int64_t wait_ms = pause_before(attempt, response ? &*response : nullptr);
    if (response) co_await response->finish();
    auto paused = co_await pause(wait_ms, scope);
    if (!paused) co_return paused.take_error();
  }
}

Task<Result<AsyncResponse>> Caller::send_following(Request request, Haste haste, Cancellation* scope) {
  Request current = request;
  std::optional<Credentials> credentials = options_.credentials;
  const auto within = [&] { return fmt::format("{} {}", request.method, request.url.text()); };
  bool hopped = false;  // another node of a cluster sent us to where the bytes are
  for (int redirects = 0;; ++redirects) {
    if (current.url.scheme == "https" && !tls_)
      co_return make_error(Code::kUnsupported, "{}: this client was made without TLS", within());
    const bool once = hopped || haste == Haste::kHurried;
    auto sending = once ? send_once(current, credentials, Haste::kHurried, scope)
                        : send_with_retries(current, credentials, scope);
    auto response = co_await std::move(sending);
    if (hopped && is_away(response)) {
      // The holder is gone since: whoever named it can find the bytes elsewhere.
      if (response) co_await response->finish();
      hopped = false;
      current = request;
      current.headers.emplace_back(kRedirectHeader, "no");
      credentials = options_.credentials;
      continue;
    }
    if (!response) co_return std::move(response).within(within());
    const std::string* location = response->find_header("location");
    const int most = options_.most_redirects;
    if (!is_redirect(response->status()) || location == nullptr || most == 0) co_return response;
    if (redirects == most)
      co_return make_error(Code::kUnavailable, "{}: redirected more than {} times", within(), most);
    auto next = redirected(current.url, *location);
    if (!next) co_return next.take_error().within(within());
    // A signature is for one host; another one must not even see who would have signed.
    if (place_of(*next) != place_of(current.url)) credentials.reset();
    co_await response->finish();
    current.url = next.take();
    hopped = current.url.query.find(kHopQuery) != std::string::npos;
  }
}

Neighbours* Caller::neighbours_for(const Request& request) const {
  // Only clusters without TLS name their nodes. Whoever signed an address signed its host, too.
  const bool fixed =
      request.url.scheme != "http" || request.url.query.find("Signature=") != std::string::npos;
  return fixed ? nullptr : options_.neighbours.get();
}

Task<Result<AsyncResponse>> Caller::send_to_each(const Request& request, std::vector<std::string> places,
                                                 Neighbours& neighbours, Cancellation* scope) {
  std::optional<Result<AsyncResponse>> last;
  for (const std::string& place : places) {
    if (last && *last) co_await (*last)->finish();
    Request there = request;
    there.url = at_place(request.url, place);
    auto response = co_await send_following(std::move(there), Haste::kHurried, scope);
    if (response && !is_away(response)) {
      neighbours.note_answer(place);
      co_return response;
    }
    const bool lost = !response && response.error().code() == Code::kUnavailable;
    if (lost) neighbours.note_away(place);
    // Nobody knows whether a request that was sent and not answered was carried out.
    const bool untouched = !response && response.error().is(kNotConnected);
    const bool given_up = scope != nullptr && scope->is_cancelled();
    if ((!response && !lost) || given_up || !(may_repeat(request) || untouched)) co_return response;
    last.emplace(std::move(response));
  }
  co_return std::move(*last);
}

Task<Result<AsyncResponse>> Caller::send_somewhere(const Request& request, Neighbours& neighbours,
                                                   Cancellation* scope) {
  const uint64_t patient_until_us = steady_us() + static_cast<uint64_t>(options_.patience_ms) * 1000;
  for (int attempt = 0;; ++attempt) {
    std::vector<std::string> places = neighbours.order(request.url, request.preferred);
    auto response = co_await send_to_each(request, std::move(places), neighbours, scope);
    const bool passes =
        response ? may_pass(response->status()) : response.error().code() == Code::kUnavailable;
    const bool last = attempt + 1 >= options_.most_attempts && steady_us() >= patient_until_us;
    if (!passes || last || !may_repeat(request)) co_return response;
    const int64_t wait_ms = pause_before(attempt, response ? &*response : nullptr);
    if (response) co_await response->finish();
    auto paused = co_await pause(wait_ms, scope);
    if (!paused) co_return paused.take_error();
  }
}

Task<Result<AsyncResponse>> Caller::send(const Request& request, Cancellation* scope) {
  if (request.url.scheme != "http" && request.url.scheme != "https")
    co_return make_error(Code::kInvalid, "{} is not an http address", request.url.text());
  Neighbours* const neighbours = neighbours_for(request);
  if (neighbours == nullptr) co_return co_await send_following(request, Haste::kPatient, scope);
  const bool alone = neighbours->order(request.url, request.preferred).size() == 1;
  auto sending =
      alone ? send_following(request, Haste::kPatient, scope) : send_somewhere(request, *neighbours, scope);
  auto response = co_await std::move(sending);
  if (!response) co_return response;
  const std::string* where = response->find_header(kWhereHeader);
  if (where != nullptr && request.url.query.empty()) neighbours->learn(request.url, *where);
  const std::string* nodes = response->find_header(kNodesHeader);
  if (nodes != nullptr) neighbours->add(request.url, parse_nodes(*nodes));
  co_return response;
}

}  // namespace millrace::net
