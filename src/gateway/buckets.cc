// Buckets: made, looked at, removed, and described as S3 clients expect.
#include "gateway/buckets.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/number.h"
#include "gateway/list_objects.h"
#include "gateway/s3_errors.h"
#include "gateway/s3_xml.h"
#include "gateway/upload_body.h"
#include "net/digest.h"
#include "store/bucket_json.h"

namespace millrace::gateway {

namespace {

constexpr std::string_view kRegion = "us-east-1";
constexpr size_t kMaxConfigurationBody = 64 << 10;

// Clients ask who may do what before they copy; rights belong to keys here, so there is one answer.
constexpr std::string_view kAcl =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<AccessControlPolicy xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Owner><ID>millrace</ID></Owner>"
    "<AccessControlList><Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
    "xsi:type=\"CanonicalUser\"><ID>millrace</ID></Grantee><Permission>FULL_CONTROL</Permission></Grant>"
    "</AccessControlList></AccessControlPolicy>\n";

}  // namespace

Status check_new_bucket(const std::string& name, store::NameRule names) {
  auto good = store::check_bucket_name(name, names);
  if (good) return {};
  return make_error(kInvalidBucketName, "{}", good.error().message())
      .with_hint(std::string(good.error().hint()));
}

net::Task<Status> list_buckets(Call& call) {
  constexpr uint64_t kMostBuckets = 10'000;
  const std::string prefix = call.get_query("prefix");
  const std::string region = call.get_query("bucket-region");
  auto limit = get_number(call, "max-buckets", kMostBuckets);
  if (limit && (*limit == 0 || *limit > kMostBuckets))
    limit = make_error(Code::kInvalid, "max-buckets is from 1 to {}", kMostBuckets);
  if (!limit) co_return co_await call.refuse(limit.error());
  auto after = net::from_base64(call.get_query("continuation-token"));
  if (!after) {
    Refusal refusal{&kInvalidArgument, "the continuation token is not one of ours", ""};
    co_return co_await call.refuse(std::move(refusal));
  }
  XmlWriter xml("ListAllMyBucketsResult");
  add_owner(xml, "Owner");
  xml.open("Buckets");
  uint64_t listed = 0;
  std::string last;
  std::string next;
  for (const auto& bucket : call.objects().buckets()) {
    if (!call.caller.may(Right::kRead, bucket->name) && !call.caller.may(Right::kWrite, bucket->name))
      continue;
    if (!bucket->name.starts_with(prefix) || bucket->name <= *after) continue;
    if (!region.empty() && region != kRegion) continue;
    if (listed == *limit) {
      next = net::to_base64(last);
      break;
    }
    xml.open("Bucket");
    xml.add("Name", bucket->name);
    xml.add("CreationDate", format_iso_date(bucket->created_ms));
    xml.add("BucketRegion", kRegion);
    xml.close();
    last = bucket->name;
    ++listed;
  }
  xml.close();
  if (!next.empty()) xml.add("ContinuationToken", next);
  if (!prefix.empty()) xml.add("Prefix", prefix);
  co_return co_await call.send_xml(200, xml.finish());
}

namespace {

// A bucket of a cluster has its redundancy from its first object on. Set later, the nodes have to look
// through what was written before.
Result<store::BucketSettings> first_settings(const Call& call) {
  nlohmann::json wanted = nlohmann::json::object();
  const net::RequestHead& head = call.request();
  if (const auto redundancy = head.find(kRedundancyHeader)) wanted["redundancy"] = std::string(*redundancy);
  if (const auto floor = head.find(kFloorHeader))
    wanted["floor"] = parse_number<unsigned>(std::string(*floor)).value_or(0);
  return store::change_settings({}, wanted);
}

}  // namespace

net::Task<Status> create_bucket(Call& call) {
  auto text = co_await read_document(call, kMaxConfigurationBody);
  if (!text) co_return co_await call.refuse(text.error());
  auto region = parse_create_bucket(*text);
  if (!region) co_return co_await call.refuse(region.error());
  auto good = check_new_bucket(call.bucket, call.services.names);
  if (!good && !call.objects().find_bucket(call.bucket)) co_return co_await call.refuse(good.error());
  auto settings = first_settings(call);
  if (!settings) co_return co_await call.refuse(settings.error());
  std::function<void(store::Done<void>)> create = [&call, &settings = *settings](store::Done<void> done) {
    call.objects().create_bucket(call.bucket, settings, std::move(done));
  };
  auto created = co_await call.ask<void>(std::move(create));
  if (!created) co_return co_await call.refuse(created.error());
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Location", "/" + call.bucket);
  co_return co_await call.connection.send({});
}

net::Task<Status> head_bucket(Call& call) {
  net::HeadBuilder& head = call.connection.start(200);
  head.add("x-amz-bucket-region", kRegion);
  co_return co_await call.connection.send({});
}

net::Task<Status> delete_bucket(Call& call) {
  std::function<void(store::Done<void>)> remove = [&call](store::Done<void> done) {
    call.objects().remove_bucket(call.bucket, std::move(done));
  };
  auto removed = co_await call.ask<void>(std::move(remove));
  if (!removed) co_return co_await call.refuse(removed.error());
  co_return co_await call.send_empty(204);
}

net::Task<Status> get_location(Call& call) {
  XmlWriter xml("LocationConstraint");
  co_return co_await call.send_xml(200, xml.finish());
}

net::Task<Status> get_versioning(Call& call) {
  XmlWriter xml("VersioningConfiguration");
  co_return co_await call.send_xml(200, xml.finish());
}

net::Task<Status> get_policy(Call& call) {
  Refusal refusal{&kNoSuchBucketPolicy, "rights belong to keys here", "millrace keys list"};
  co_return co_await call.refuse(std::move(refusal));
}

net::Task<Status> get_bucket_tags(Call& call) {
  Refusal refusal{&kNoSuchTagSet, "buckets have no tags"};
  co_return co_await call.refuse(std::move(refusal));
}

net::Task<Status> get_acl(Call& call) {
  co_return co_await call.send_xml(200, std::string(kAcl));
}

}  // namespace millrace::gateway
