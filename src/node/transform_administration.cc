// Answers in JSON; work that may wait is a worker's.
#include "node/transform_administration.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "gateway/s3_support.h"
#include "gateway/upload_body.h"

namespace millrace::node {

namespace {

using gateway::Call;
using gateway::Refusal;
using Json = nlohmann::ordered_json;

constexpr std::string_view kAll = "transforms";
constexpr std::string_view kOne = "transforms/";

Status check_queries(const Call& call) {
  for (const auto& [name, value] : call.query) {
    if (!gateway::is_of_links(name))
      return make_error(Code::kInvalid, "?{} is not known of /-/transforms", printable(name, 64));
  }
  return {};
}

}  // namespace

bool is_of_transforms(std::string_view what) {
  return what == kAll || what.starts_with(kOne);
}

net::Task<Status> administer_transforms(Call& call, NodeTransforms& transforms, std::string_view what) {
  const bool is_get = call.method() == "GET" || call.method() == "HEAD";
  const std::string name(what == kAll ? std::string_view() : what.substr(kOne.size()));
  const auto good = check_queries(call);
  if (!good) co_return co_await call.refuse(good.error());
  const bool is_put = call.method() == "PUT" && !name.empty();
  const bool is_delete = call.method() == "DELETE" && !name.empty();
  if (!is_get && !is_put && !is_delete) {
    Refusal refusal{
        &gateway::kMethodNotAllowed,
        fmt::format("{} of /-/{} is not possible", printable(call.method(), 16), printable(what, 80)), "",
        name.empty() ? "GET, HEAD" : "GET, HEAD, PUT, DELETE"};
    co_return co_await call.refuse(std::move(refusal));
  }
  std::string description;
  if (is_put) {
    auto body = co_await gateway::read_document(call, transform::kMostDescriptionBytes);
    if (!body) co_return co_await call.refuse(body.error());
    description = body.take();
    constexpr size_t kMostAudited = 4096;
    call.change = printable(description, kMostAudited);
  }
  auto work = [&transforms, name, description, is_put, is_delete]() -> Result<Json> {
    if (is_put) return transforms.add(name, description);
    if (is_delete) return transforms.remove(name);
    if (name.empty()) return transforms.list_json();
    return transforms.show_json(name);
  };
  auto json = co_await call.blocking_long(std::move(work));
  if (!json) {
    Refusal refusal = gateway::refusal_of(json.error());
    if (json.error().code() == Code::kNotFound) refusal.reason = &gateway::kNoSuchTransform;
    co_return co_await call.refuse(std::move(refusal));
  }
  co_return co_await call.send_json(json->dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace millrace::node
