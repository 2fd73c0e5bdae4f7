// Answers a call: refusals, XML, JSON, memory of the budget.
#include "gateway/call.h"

#include "base/ids.h"

namespace millrace::gateway {

std::optional<std::string_view> Call::find_query(std::string_view name) const {
  for (const net::QueryItem& item : query) {
    if (item.first == name) return item.second;
  }
  return std::nullopt;
}

net::Task<Status> Call::reserve(uint64_t bytes) {
  Budget& budget = services.memory.work;
  std::function<void(std::function<void(Result<Charge>)>)> start =
      [&budget, bytes](std::function<void(Result<Charge>)> done) {
        Status asked = budget.take_later(bytes, [done](Charge charge) { done(std::move(charge)); });
        if (!asked) done(asked.take_error());
      };
  auto granted = co_await net::await_callback<Result<Charge>>(connection.loop(), std::move(start));
  if (!granted) co_return granted.take_error();
  reserved_ = granted.take();
  co_return Status();
}

void Call::touch(const std::string& object, const Status& outcome) {
  if (services.audit == nullptr) return;
  touched.push_back({object});
  if (outcome) return;
  const Refusal refusal = refusal_of(outcome.error());
  touched.back().status = refusal.status();
  touched.back().code = refusal.code();
}

net::Task<Status> Call::refuse(Refusal refusal) {
  refused_with = refusal.code();
  if (connection.response_started()) {
    // Half an answer is out; only a cut connection tells the client that it is not whole.
    co_return make_error(Code::kUnavailable, "{}", refusal.message);
  }
  net::HeadBuilder& head = connection.start(refusal.status());
  head.add("Content-Type", administrative ? "application/json" : "application/xml");
  if (refusal.status() == 503) head.add("Retry-After", "2");
  if (!refusal.allow.empty()) head.add("Allow", refusal.allow);
  if (!refusal.content_range.empty()) head.add("Content-Range", refusal.content_range);
  std::string body;
  if (administrative) {
    body = refusal_json(refusal);
  } else {
    const std::string id = make_id();
    head.add("x-amz-request-id", id);
    body = refusal_xml(refusal, request().path, id);
  }
  co_return co_await connection.send(body);
}

net::Task<Status> Call::refuse(const Error& error) {
  if (error.code() == Code::kIo || error.code() == Code::kCorrupt) {
    services.log.warn("request failed", "operation", row_of(operation).meter, "bucket", bucket, "key", key,
                      "error", error.message());
  }
  Refusal refusal = refusal_of(error);
  co_return co_await refuse(std::move(refusal));
}

net::Task<Status> Call::send_xml(int status, std::string body) {
  net::HeadBuilder& head = connection.start(status);
  head.add("Content-Type", "application/xml");
  co_return co_await connection.send(body);
}

net::Task<Status> Call::send_json(std::string body) {
  net::HeadBuilder& head = connection.start(200);
  head.add("Content-Type", "application/json");
  co_return co_await connection.send(body);
}

net::Task<Status> Call::send_empty(int status) {
  connection.start(status);
  co_return co_await connection.send({});
}

bool looks_signed(const net::RequestHead& request) {
  return request.find("authorization") || request.query.find("X-Amz-Signature") != std::string_view::npos ||
         request.query.find("X-Amz-Credential") != std::string_view::npos ||
         request.query.find("AWSAccessKeyId") != std::string_view::npos;
}

bool from_foreign_page(const net::RequestHead& request) {
  const std::string_view site = request.get("sec-fetch-site");
  if (!site.empty() && !net::equal_names(site, "same-origin") && !net::equal_names(site, "none")) return true;
  const auto origin = request.find("origin");
  if (!origin || origin->empty()) return false;
  const size_t slashes = origin->find("://");
  return slashes == std::string_view::npos || !net::equal_names(origin->substr(slashes + 3), request.host);
}

}  // namespace millrace::gateway
