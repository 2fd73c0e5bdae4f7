// Wires jobs to the node: registry, neighbours, places of objects, keys, workers.
#include "node/jobs_part.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/ids.h"
#include "base/rendezvous.h"
#include "base/text.h"
#include "cluster/files_registry.h"
#include "jobs/job_report.h"
#include "net/digest.h"
#include "net/url.h"
#include "node/cluster_part.h"

namespace millrace::node {

namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kAccessLetters = 18;

std::string program_path() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "/proc/self/exe";
}

std::string host_of(const std::string& address) {
  const auto url = net::parse_url("http://" + address);
  return url ? url->host : address;
}

transfer::Settings store_settings(const JobsPart::Parts& parts) {
  transfer::Settings settings;
  settings.endpoint = parts.url;
  settings.ca_file = parts.ca_file;
  settings.user_agent = jobs::kUserAgent;
  settings.credentials = net::Credentials{parts.key.access_key, parts.key.secret_key, ""};
  return settings;
}

std::vector<std::string> worker_variables(const JobsPart::Parts& parts) {
  std::vector<std::string> variables = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/",
                                        "MILLRACE_ENDPOINT=" + parts.url};
  if (!parts.ca_file.empty()) variables.push_back("MILLRACE_CA_FILE=" + parts.ca_file);
  // In open mode nobody looks at signatures.
  variables.push_back("MILLRACE_ACCESS_KEY=" + parts.key.access_key);
  variables.push_back("MILLRACE_SECRET_KEY=" + parts.key.secret_key);
  return variables;
}

}  // namespace

std::shared_ptr<const gateway::KeyRing> JobKeys::current() {
  auto keys = keys_.current();
  // Without keys everyone may do everything: one key more would end that.
  if (keys->empty()) return keys;
  const MutexLock lock(mutex_);
  if (from_ != keys) {
    gateway::KeyRing ring = *keys;
    ring.add(own_);
    from_ = std::move(keys);
    with_ = std::make_shared<const gateway::KeyRing>(std::move(ring));
  }
  return with_;
}

gateway::Key make_job_key(const ClusterPart* cluster) {
  gateway::Key key = gateway::make_key();
  key.note = "jobs of this node and its cluster";
  key.grants = {{"*", true, true}};
  if (cluster == nullptr) return key;
  const std::string& secret = cluster->member().identity()->secret;
  key.access_key =
      "MRJ" + net::to_hex(net::hmac_sha256(secret, "jobs: access key")).substr(0, kAccessLetters);
  key.secret_key = net::to_hex(net::hmac_sha256(secret, "jobs: secret key"));
  return key;
}

class JobsPart::NodeSurroundings final : public jobs::Surroundings {
 public:
  NodeSurroundings(const Parts& parts)
      : cluster_(parts.cluster), meters_(parts.meters), host_(host_of(parts.config.listen)) {}

  std::string self() override {
    if (cluster_ == nullptr) return alone_;
    const cluster::Member& member = cluster_->member();
    if (!member.has_lease()) return {};
    const auto map = member.map();
    const cluster::MapNode* const node = map ? map->find_node(member.self()) : nullptr;
    return node != nullptr && node->is_alive() ? claimant(*node) : "";
  }

  std::vector<jobs::Neighbour> neighbours() override {
    if (cluster_ == nullptr) return {{alone_, 1, host_}};
    std::vector<jobs::Neighbour> all;
    const auto map = cluster_->member().map();
    if (map == nullptr) return all;
    for (const cluster::MapNode& node : map->nodes()) {
      if (node.is_alive()) all.push_back({claimant(node), node.number, host_of(node.address)});
    }
    std::ranges::sort(all, {}, &jobs::Neighbour::number);
    return all;
  }

  bool holds(const jobs::ObjectAddress& object) override {
    if (cluster_ == nullptr) return true;
    const auto map = cluster_->member().map();
    const auto redundancy = cluster_->joined().cluster.membership().redundancy(object.bucket);
    if (map == nullptr || !redundancy) return false;
    const auto drives = map->place(name_hash(object.bucket, object.key), redundancy->slices());
    return std::ranges::any_of(drives, [&](cluster::DriveId drive) {
      const cluster::MapNode* const node = map->node_of(drive);
      return node != nullptr && node->number == cluster_->member().self();
    });
  }

  uint64_t client_requests() override { return meters_.client_requests(); }

 private:
  static std::string claimant(const cluster::MapNode& node) {
    return fmt::format("{}:{}", node.number, node.process);
  }

  ClusterPart* const cluster_;
  const gateway::Meters& meters_;
  const std::string host_;
  const std::string alone_ = "1:" + make_id();
};

Result<std::unique_ptr<JobsPart>> JobsPart::start(const Parts& parts, Log& log) {
  std::unique_ptr<JobsPart> part(new JobsPart());
  if (parts.cluster == nullptr)
    part->own_registry_ = MR_TRY(cluster::FilesRegistry::open(parts.config.data + "/jobs-registry"));
  cluster::Registry& registry =
      parts.cluster != nullptr ? parts.cluster->joined().registry : *part->own_registry_;
  part->surroundings_ = std::make_unique<NodeSurroundings>(parts);
  part->stores_ = std::make_unique<transfer::Stores>(store_settings(parts));
  jobs::RunnerOptions options;
  options.slots = static_cast<unsigned>(parts.config.job_slots);
  if (options.slots == 0) options.slots = std::max(1U, std::thread::hardware_concurrency());
  options.share = static_cast<unsigned>(parts.config.job_share_percent);
  options.directory = std::filesystem::absolute(parts.config.data + "/jobs").lexically_normal();
  options.worker = {program_path(), worker_variables(parts)};
  options.confinement = MR_TRY(shard::parse_confinement(parts.config.job_sandbox));
  options.readable = parts.config.job_paths;
  part->runner_ = std::make_unique<jobs::JobRunner>(registry, *part->surroundings_, *part->stores_,
                                                    std::move(options), log);
  MR_TRY(part->runner_->start());
  return part;
}

JobsPart::~JobsPart() {
  stop();
}

void JobsPart::stop() {
  if (runner_) runner_->stop();
}

Result<Json> JobsPart::list() {
  Json list = Json::array();
  jobs::JobBook& book = runner_->book();
  for (const jobs::Job& job : MR_TRY(book.list()))
    list.push_back(MR_TRY(jobs::report_job(book, job, jobs::Detail::kSummary)));
  return Json{{"jobs", list}};
}

Result<Json> JobsPart::show(const std::string& id) {
  jobs::JobBook& book = runner_->book();
  return jobs::report_job(book, MR_TRY(book.get(id)), jobs::Detail::kFull);
}

Result<Json> JobsPart::change(const Json& request) {
  const Json asked = request.value("action", Json());
  const std::string action = asked.is_string() ? asked.get<std::string>() : "";
  const std::string with = action == "start" ? "job" : "id";
  if (action != "start" && action != "stop" && action != "retry" && action != "remove")
    return make_error(Code::kInvalid, "jobs cannot do \"{}\"", printable(action, 32))
        .with_hint("known actions are start, stop, retry, remove");
  for (const auto& [name, value] : request.items()) {
    if (name == "action" || name == with) continue;
    return make_error(Code::kInvalid, "\"{}\" is not known with the action {}", printable(name, 64), action)
        .with_hint(fmt::format("it goes with \"{}\" alone", with));
  }
  jobs::JobBook& book = runner_->book();
  const auto report = [&](const jobs::Job& job) {
    return jobs::report_job(book, job, jobs::Detail::kSummary);
  };
  if (action == "start") {
    const Json job = request.value("job", Json());
    auto description =
        MR_TRY(jobs::decode_description(job.dump(-1, ' ', false, Json::error_handler_t::replace)));
    return report(MR_TRY(runner_->start_job(std::move(description))));
  }
  const Json id = request.value("id", Json());
  if (!id.is_string()) return make_error(Code::kInvalid, "\"id\" must be the id of a job");
  const std::string name = id.get<std::string>();
  if (action == "stop") return report(MR_TRY(runner_->stop_job(name)));
  if (action == "retry") return report(MR_TRY(runner_->retry_job(name)));
  MR_TRY(runner_->remove_job(name));
  return Json{{"removed", name}};
}

}  // namespace millrace::node
