// Serves /-/: health, status, metrics, drives, buckets, the scrubber, the cluster, messages of other nodes.
#include "node/administration.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/text.h"
#include "gateway/s3_support.h"
#include "gateway/upload_body.h"
#include "node/cluster_verification.h"
#include "node/prometheus.h"
#include "node/transform_administration.h"
#include "store/bucket_json.h"
#include "store/waiting.h"

namespace millrace::node {

namespace {

using gateway::Call;
using gateway::Refusal;
using gateway::Right;
using Json = nlohmann::ordered_json;

constexpr size_t kMaxBody = 64 << 10;
constexpr size_t kMaxJobBody = 2 << 20;  // with its files

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json meter_json(const Meter::Reading& reading) {
  return {{"count", reading.count},
          {"bytes", reading.bytes},
          {"errors", reading.errors},
          {"mean_us", reading.count == 0 ? 0 : reading.microseconds / reading.count}};
}

Json drives_json(store::Drives& drives) {
  Json list = Json::array();
  for (const store::DriveStatus& drive : drives.status()) {
    Json json = {{"path", drive.path},
                 {"id", drive.id},
                 {"state", store::drive_state_name(drive.state)},
                 {"rotational", drive.rotational},
                 {"total_bytes", drive.total_bytes},
                 {"free_bytes", drive.free_bytes},
                 {"free_inodes", drive.free_inodes},
                 {"objects", drive.objects},
                 {"queue_reads", drive.queue_reads},
                 {"queue_writes", drive.queue_writes},
                 {"reads", meter_json(drive.reads)},
                 {"writes", meter_json(drive.writes)},
                 {"commits", meter_json(drive.commits)}};
    if (!drive.reason.empty()) json["reason"] = drive.reason;
    if (drive.state == store::DriveState::kDraining) json["drain_left"] = drive.drain_left;
    list.push_back(std::move(json));
  }
  return list;
}

Json scrub_json(const Administered& parts) {
  const store::ScrubStatus scrub = parts.store.drives().scrub_status();
  Json damaged = Json::array();
  for (const store::Damage& damage : scrub.found) {
    damaged.push_back({{"bucket", damage.bucket},
                       {"key", damage.key},
                       {"drive", damage.drive},
                       {"block", damage.block},
                       {"what", damage.what}});
  }
  Json json = {{"running", scrub.running},
               {"cycles", scrub.cycles},
               {"bytes_done", scrub.bytes_done},
               {"bytes_total", scrub.bytes_total},
               {"objects_done", scrub.objects_done},
               {"damaged", scrub.damaged},
               {"found", damaged}};
  if (parts.cluster) json["repaired"] = repairs_json(*parts.cluster);
  return json;
}

Json bucket_json(const store::Bucket& bucket, const store::Quotas& quotas) {
  Json json = {{"name", bucket.name}, {"created", format_iso_date(bucket.created_ms)}};
  json.update(store::settings_json(bucket.settings));
  const auto use = bucket.settings.quota.is_set() ? quotas.find_use(bucket) : std::nullopt;
  if (use) {
    json["used_bytes"] = use->bytes;
    json["used_objects"] = use->objects;
  }
  return json;
}

// A slip in the name must not make a bucket, least of all one that everyone may read.
Result<std::shared_ptr<const store::Bucket>> get_bucket(store::Objects& objects, const std::string& name) {
  auto bucket = objects.find_bucket(name);
  if (bucket) return bucket;
  return make_error(Code::kNotFound, "there is no bucket {}", printable(name, 80))
      .with_hint("millrace mb makes one, millrace bucket lists them");
}

Status change_bucket(store::Objects& objects, const std::string& name, const Json& json) {
  const auto bucket = MR_TRY(get_bucket(objects, name));
  const store::BucketSettings settings = MR_TRY(store::change_settings(bucket->settings, json));
  return store::wait_for<void>(
      [&](store::Done<void> done) { objects.change_bucket(name, settings, std::move(done)); });
}

Status change_drive(store::Drives& drives, const Json& change) {
  const std::string action = change.at("action").get<std::string>();
  const std::string path = change.at("path").get<std::string>();
  const Json take_back = change.value("take_back", Json(false));
  if (!take_back.is_boolean()) return make_error(Code::kInvalid, "\"take_back\" must be true or false");
  if (take_back && action != "add")
    return make_error(Code::kInvalid, "\"take_back\" goes with \"add\" alone");
  if (action == "add")
    return drives.add(path, take_back ? store::GivenUp::kTakeBack : store::GivenUp::kRefuse);
  if (action == "drain") return drives.drain(path);
  if (action == "remove") return drives.remove(path);
  return make_error(Code::kInvalid, "drives cannot do \"{}\"", printable(action, 32))
      .with_hint("known actions are add, drain, remove");
}

struct Uptime {
  const net::Server& server;
  uint64_t started_us;
};

Json status_json(const Administered& parts, Uptime uptime) {
  store::LocalStore& store = parts.store;
  Json buckets = Json::array();
  for (const auto& bucket : parts.objects.buckets()) buckets.push_back(bucket->name);
  return {{"node", store.node_id()},
          {"uptime_seconds", (steady_us() - uptime.started_us) / 1'000'000},
          {"cpu_seconds", process_cpu_seconds()},
          {"connections", uptime.server.connections()},
          {"requests_under_way", uptime.server.requests_under_way()},
          {"stopping", uptime.server.is_draining()},
          {"drives", drives_json(store.drives())},
          {"buckets", buckets},
          {"scrub", scrub_json(parts)}};
}

Result<Json> parse_body(const std::string& text) {
  Json json = Json::parse(text.empty() ? "{}" : text, nullptr, false);
  if (!json.is_object()) return make_error(Code::kInvalid, "the body is not a JSON object");
  return json;
}

// What is asked of the whole cluster by POST.
bool is_of_cluster(std::string_view what) {
  return what == "cluster" || what == "cluster/verify";
}

// A change that is only half understood must not be made. The settings of a bucket and the actions of a
// cluster are judged one by one later.
Status check_change(const Call& call, std::string_view what, const Json& json) {
  for (const auto& [name, value] : call.query) {
    if (gateway::is_of_links(name)) continue;
    return make_error(Code::kInvalid, "?{} is not known in a change of /-/{}", printable(name, 64),
                      printable(what, 64))
        .with_hint("the body, a JSON object, says what is to change");
  }
  if (what.starts_with("buckets/") || is_of_cluster(what) || what == "jobs") return {};
  const bool of_drives = what == "drives";
  for (const auto& [name, value] : json.items()) {
    if (of_drives && (name == "action" || name == "path" || name == "take_back")) continue;
    return make_error(Code::kInvalid, "\"{}\" is not known in a change of /-/{}", printable(name, 64), what)
        .with_hint(of_drives ? "a drive is changed with \"action\", \"path\" and \"take_back\" alone"
                             : "a scrub takes no settings: the body is empty");
  }
  return {};
}

// What blocks, on a worker; the answer is the JSON to send.
net::Task<Status> answer(Call& call, std::function<Result<Json>()> work) {
  auto json = co_await call.blocking(std::move(work));
  if (!json) {
    Refusal refusal = gateway::refusal_of(json.error());
    if (json.error().code() == Code::kNotFound) refusal.reason = &gateway::kNotFound;
    if (json.error().code() == Code::kExists) refusal.reason = &store::kConditionFailed;
    co_return co_await call.refuse(std::move(refusal));
  }
  co_return co_await call.send_json(dump(*json));
}

// The method that changes something there; empty: nothing can be changed.
std::string_view changing_method(std::string_view what) {
  if (what.starts_with("buckets/")) return "PUT";
  return what == "drives" || what == "scrub" || what == "jobs" || is_of_cluster(what) ? "POST" : "";
}

bool is_of_jobs(std::string_view what) {
  return what == "jobs" || what.starts_with("jobs/");
}

Refusal no_cluster() {
  return {&gateway::kNotFound, "this node belongs to no cluster",
          "millrace up --registry makes a node one of a cluster"};
}

// Never waits for a drive or the registry: a supervisor asks while one hangs.
net::Task<Status> tell_ready(Call& call, const Administered& parts) {
  if (parts.cluster && !parts.cluster->member.has_lease()) {
    const auto problem = parts.cluster->member.problem();
    Refusal refusal{&gateway::kServiceUnavailable,
                    problem ? fmt::format("the node has no lease: {}", problem->message())
                            : "the node has no lease: it waits for its place in the map",
                    "can the node reach the registry?"};
    co_return co_await call.refuse(std::move(refusal));
  }
  const store::Readiness readiness = parts.store.drives().readiness();
  if (!readiness.takes_writes) {
    Refusal refusal{&gateway::kServiceUnavailable, "no drive takes writes", "millrace drives list says why"};
    co_return co_await call.refuse(std::move(refusal));
  }
  Json json = {{"ready", true}};
  // Whoever changes the keys looks here for whether they are in force.
  if (parts.cluster) json["keys_revision"] = parts.cluster->keys.revision();
  if (!readiness.missing.empty()) json["missing"] = readiness.missing;
  co_return co_await call.send_json(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

NodeAdministration::NodeAdministration(Administered parts) : parts_(parts), started_us_(steady_us()) {}

void NodeAdministration::attach(const net::Server& server, const gateway::Meters& meters) {
  server_ = &server;
  meters_ = &meters;
}

net::Task<Status> NodeAdministration::tell_metrics(Call& call) {
  auto work = [this]() -> Result<std::string> {
    return prometheus_text({*meters_, *server_, parts_.store.drives(), parts_.quotas, parts_.audit,
                            parts_.upstream, parts_.cluster ? &*parts_.cluster : nullptr, parts_.transforms,
                            jobs_});
  };
  auto text = co_await call.blocking(std::move(work));
  if (!text) co_return co_await call.refuse(text.error());
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  co_return co_await call.connection.send(*text);
}

net::Task<Status> NodeAdministration::tell_cluster(Call& call, std::string_view what) {
  if (!parts_.cluster) {
    Refusal refusal = no_cluster();
    co_return co_await call.refuse(std::move(refusal));
  }
  const JoinedCluster& joined = *parts_.cluster;
  if (what == "maintenance") {
    std::function<Result<Json>()> work = [&joined]() -> Result<Json> {
      MR_TRY(check_maintenance(joined));
      return Json{{"maintenance", true}};
    };
    co_return co_await answer(call, std::move(work));
  }
  if (what == "cluster/ready") {
    std::function<Result<Json>()> work = [this, &joined]() -> Result<Json> {
      return ready_json(joined, parts_.objects);
    };
    co_return co_await answer(call, std::move(work));
  }
  if (what == "cluster") {
    std::function<Result<Json>()> work = [&joined]() -> Result<Json> { return cluster_json(joined); };
    co_return co_await answer(call, std::move(work));
  }
  const cluster::ObjectName name{call.get_query("bucket"), call.get_query("key")};
  if (name.bucket.empty() || name.key.empty()) {
    Refusal refusal{&gateway::kInvalidArgument, "/-/cluster/where needs ?bucket= and &key=", ""};
    co_return co_await call.refuse(std::move(refusal));
  }
  // Whether there is such an object is not for everyone who may look at the node.
  if (!call.caller.may(Right::kRead, name.bucket)) {
    Refusal refusal{&gateway::kAccessDenied, "this needs a key with the right to read the bucket", ""};
    co_return co_await call.refuse(std::move(refusal));
  }
  std::function<Result<Json>()> work = [&joined, name]() -> Result<Json> { return where_json(joined, name); };
  co_return co_await answer(call, std::move(work));
}

net::Task<Status> NodeAdministration::look(Call& call, std::string_view what) {
  store::LocalStore& store = parts_.store;
  if (what == "metrics") co_return co_await tell_metrics(call);
  if (is_of_jobs(what)) co_return co_await tell_jobs(call, what);
  if (what == "cluster" || what == "cluster/ready" || what == "cluster/where" || what == "maintenance")
    co_return co_await tell_cluster(call, what);
  std::function<Result<Json>()> work;
  if (what == "status") {
    work = [this, uptime = Uptime{*server_, started_us_}]() -> Result<Json> {
      return status_json(parts_, uptime);
    };
  }
  if (what == "drives")
    work = [&store]() -> Result<Json> { return Json{{"drives", drives_json(store.drives())}}; };
  if (what == "scrub") work = [this]() -> Result<Json> { return scrub_json(parts_); };
  if (what == "buckets") {
    work = [&objects = parts_.objects, &quotas = parts_.quotas]() -> Result<Json> {
      Json list = Json::array();
      for (const auto& bucket : objects.buckets()) list.push_back(bucket_json(*bucket, quotas));
      return Json{{"buckets", list}};
    };
  }
  if (what.starts_with("buckets/")) {
    work = [&objects = parts_.objects, &quotas = parts_.quotas,
            name = std::string(what.substr(8))]() -> Result<Json> {
      return bucket_json(*MR_TRY(get_bucket(objects, name)), quotas);
    };
  }
  if (!work) {
    Refusal refusal{&gateway::kNotFound, fmt::format("there is nothing at /-/{}", printable(what, 64)),
                    "/-/live /-/ready /-/metrics /-/status /-/drives /-/buckets /-/scrub /-/jobs "
                    "/-/cluster /-/maintenance /-/transforms"};
    co_return co_await call.refuse(std::move(refusal));
  }
  co_return co_await answer(call, std::move(work));
}

net::Task<Status> NodeAdministration::tell_jobs(Call& call, std::string_view what) {
  JobsPart* const jobs = jobs_;
  if (jobs == nullptr) {
    Refusal refusal{&gateway::kServiceUnavailable,
                    "this node runs no jobs: it is starting, or its log says why", ""};
    co_return co_await call.refuse(std::move(refusal));
  }
  std::function<Result<Json>()> work = [jobs]() -> Result<Json> { return jobs->list(); };
  if (what != "jobs")
    work = [jobs, id = std::string(what.substr(5))]() -> Result<Json> { return jobs->show(id); };
  co_return co_await answer(call, std::move(work));
}

// Empty where the body does not say what to change.
std::function<Result<Json>()> NodeAdministration::find_change(std::string_view what, Json json) const {
  store::LocalStore& store = parts_.store;
  if (what == "scrub") {
    return [this]() -> Result<Json> {
      parts_.store.drives().scrub_now();
      return scrub_json(parts_);
    };
  }
  if (what == "jobs") {
    return [jobs = jobs_.load(), json = std::move(json)]() -> Result<Json> {
      if (jobs == nullptr)
        return make_error(Code::kUnavailable, "this node runs no jobs: it is starting, or its log says why");
      return jobs->change(json);
    };
  }
  if (is_of_cluster(what)) {
    const auto ask = what == "cluster" ? change_cluster : verify_cluster;
    return [&joined = *parts_.cluster, ask, json = std::move(json)]() -> Result<Json> {
      return ask(joined, json);
    };
  }
  if (what.starts_with("buckets/")) {
    return [&objects = parts_.objects, &quotas = parts_.quotas, name = std::string(what.substr(8)),
            settings = std::move(json)]() -> Result<Json> {
      MR_TRY(change_bucket(objects, name, settings));
      return bucket_json(*MR_TRY(get_bucket(objects, name)), quotas);
    };
  }
  if (!json.value("path", Json()).is_string() || !json.value("action", Json()).is_string()) return {};
  if (parts_.cluster && json.contains("take_back")) {
    return []() -> Result<Json> {
      return make_error(Code::kInvalid, "a cluster takes a drive that was given up only when it is empty")
          .with_hint("the cluster has made what the drive held anew: empty its directory and add it");
    };
  }
  return [&store, json = std::move(json)]() -> Result<Json> {
    MR_TRY(change_drive(store.drives(), json));
    return Json{{"drives", drives_json(store.drives())}};
  };
}

net::Task<Status> NodeAdministration::change(Call& call, std::string_view what) {
  if (is_of_cluster(what) && !parts_.cluster) {
    Refusal refusal = no_cluster();
    co_return co_await call.refuse(std::move(refusal));
  }
  auto text = co_await gateway::read_document(call, what == "jobs" ? kMaxJobBody : kMaxBody);
  if (!text) co_return co_await call.refuse(text.error());
  // The scripts of a job are not kept in the audit.
  call.change = text->substr(0, kMaxBody);
  auto json = parse_body(*text);
  if (!json) co_return co_await call.refuse(json.error());
  const auto understood = check_change(call, what, *json);
  if (!understood) co_return co_await call.refuse(understood.error());
  auto work = find_change(what, json.take());
  if (!work) {
    Refusal refusal{&gateway::kInvalidArgument, "a drive is changed with \"action\" and \"path\"", ""};
    co_return co_await call.refuse(std::move(refusal));
  }
  co_return co_await answer(call, std::move(work));
}

net::Task<Status> NodeAdministration::answer_peer(Call& call) {
  if (parts_.peers != nullptr) co_return co_await parts_.peers->serve(call.connection);
  Refusal refusal = no_cluster();
  co_return co_await call.refuse(std::move(refusal));
}

net::Task<Status> NodeAdministration::serve(Call& call) {
  const std::string_view path = call.request().path;
  // Before any right is judged: the seal of a message is its right.
  if (path == cluster::kPeerPath) co_return co_await answer_peer(call);
  const std::string what(path.size() > 3 ? path.substr(3) : std::string_view());
  const bool get = call.method() == "GET" || call.method() == "HEAD";
  if (get && what == "live") co_return co_await call.send_json("{\"live\": true}\n");
  if (get && what == "ready") co_return co_await tell_ready(call, parts_);
  const bool may_change = call.caller.may(Right::kAdmin, "");
  // What jobs run, and what their commands say, is for those who may start them.
  const bool may_look = is_of_jobs(what)
                            ? may_change
                            : call.caller.open || call.caller.key != nullptr || call.connection.is_loopback();
  const bool foreign =
      call.request().find("origin").has_value() || gateway::from_foreign_page(call.request());
  // What a transform consists of may hold secrets of its owner.
  const bool is_deep = is_of_transforms(what) && what != "transforms";
  if (get && !is_deep ? !may_look : (!may_change || foreign)) {
    Refusal refusal{&gateway::kAccessDenied, "administration needs a key with the right to it",
                    "millrace keys create --admin"};
    co_return co_await call.refuse(std::move(refusal));
  }
  if (is_of_transforms(what) && parts_.transforms != nullptr)
    co_return co_await administer_transforms(call, *parts_.transforms, what);
  if (get) co_return co_await look(call, what);
  const std::string_view changes = changing_method(what);
  if (call.method() != changes) {
    Refusal refusal{
        &gateway::kMethodNotAllowed,
        fmt::format("{} of /-/{} is not possible", printable(call.method(), 16), printable(what, 64)), "",
        changes.empty() ? "GET, HEAD" : fmt::format("GET, HEAD, {}", changes)};
    co_return co_await call.refuse(std::move(refusal));
  }
  co_return co_await change(call, what);
}

}  // namespace millrace::node
