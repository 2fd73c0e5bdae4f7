// Wiring, and the rules about who may listen where.
#include "node/node.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/clock.h"

namespace millrace::node {

namespace {

// Nobody asks a node that left: other nodes have the map within milliseconds, and their reads take less than
// a second each.
constexpr uint64_t kQuietMs = 300;
// What others still wait for may take minutes (slices that are being made): they ask again elsewhere.
constexpr uint64_t kMostQuietMs = 3000;

Status make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return make_system_error(errno, "making " + path);
  return {};
}

// Hot objects and connections take a descriptor each; the usual soft limit of 1024 is a historical accident.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Status check_exposure(const net::ListenAddress& listen, const gateway::KeyRing& ring, const Config& config) {
  if (listen.is_loopback() || !ring.empty() || config.insecure) return {};
  return make_error(Code::kDenied, "{} can be reached from other machines, and there are no keys",
                    listen.text())
      .with_hint(fmt::format("millrace keys create --data {} --admin (of a cluster: --registry instead of "
                             "--data), or --insecure to let everyone in",
                             config.data));
}

// None: plain HTTP.
Result<net::CertificatePaths> find_certificates(const Config& config) {
  if (!config.tls.empty() && config.tls != "self-signed") {
    return make_error(Code::kInvalid, "tls = \"{}\" is not known", config.tls)
        .with_hint("\"self-signed\", or tls_cert and tls_key");
  }
  if (config.tls_cert.empty() != config.tls_key.empty()) {
    return make_error(Code::kInvalid, "a certificate and its key come together")
        .with_hint("give both --tls-cert and --tls-key");
  }
  if (config.tls == "self-signed") return net::make_self_signed(config.data);
  return net::CertificatePaths{config.tls_cert, config.tls_key};
}

upstream::UpstreamOptions upstream_options(const Config& config, store::LocalStore& store) {
  upstream::UpstreamOptions options;
  options.memory = config.upstream_memory;
  options.timeout_ms = static_cast<int64_t>(config.upstream_timeout_seconds) * 1000;
  options.ca_file = config.upstream_ca;
  if (!config.registry.empty()) options.address = config.advertise.empty() ? config.listen : config.advertise;
  options.evict_above_percent = static_cast<unsigned>(config.evict_above_percent);
  options.evict_to_percent = static_cast<unsigned>(config.evict_to_percent);
  options.drives = [&store] {
    std::vector<upstream::DriveFill> fills;
    for (const store::DriveStatus& drive : store.drives().status())
      fills.push_back({drive.total_bytes, drive.free_bytes});
    return fills;
  };
  return options;
}

}  // namespace

Result<std::unique_ptr<Node>> Node::start(const Config& config, Log& log) {
  std::unique_ptr<Node> node(new Node());
  node->listen_ = MR_TRY(net::parse_listen_address(config.listen));
  raise_descriptor_limit();
  MR_TRY(make_directory(config.data));
  node->keys_ = MR_TRY(KeyFile::open(key_file_path(config.data), [&log](const Error& error) {
    log.warn("the changed keys cannot be used: the last ones stay", "error", error.message());
  }));
  const auto check = [&](const gateway::KeyRing& ring) {
    return check_exposure(node->listen_, ring, config);
  };
  if (config.registry.empty()) MR_TRY(check(*node->keys_->current()));
  const net::CertificatePaths paths = MR_TRY(find_certificates(config));
  if (!paths.certificate.empty()) {
    node->certificates_ = MR_TRY(net::CertificateFiles::open(
        paths, [&log](const Error& error) { log.warn("TLS needs a look", "error", error.message()); }));
    if (config.tls == "self-signed") node->self_signed_ = paths.certificate;
  }
  store::StoreOptions stored_as = config.store_options();
  stored_as.may_adopt = adoption_by(config);
  node->store_ = MR_TRY(store::LocalStore::open(stored_as, log));
  if (config.registry.empty()) MR_TRY(check_alone(config));
  if (!config.registry.empty())
    node->cluster_ = MR_TRY(ClusterPart::start(config, *node->store_, log, {node->keys_->current(), check}));
  gateway::KeySource& keys = node->cluster_ ? node->cluster_->keys() : *node->keys_;
  node->open_ = keys.current()->empty();
  MR_TRY(node->begin_audit(config, keys, log));
  store::Objects& stored = node->cluster_ ? node->cluster_->objects() : node->store_->objects();
  node->quotas_ = std::make_unique<store::QuotaObjects>(
      stored, store::Quotas::Surroundings{
                  [part = node->cluster_.get()] { return part != nullptr ? part->count_serving() : 1; },
                  [] { return steady_us(); }});
  node->upstream_ = std::make_unique<upstream::UpstreamObjects>(*node->quotas_,
                                                                upstream_options(config, *node->store_), log);
  store::Objects& objects = *node->upstream_;
  node->workers_ = std::make_unique<Workers>(static_cast<unsigned>(config.workers));
  node->movers_ = std::make_unique<Workers>(static_cast<unsigned>(config.workers));
  MR_TRY(node->open_transforms(config, log));
  node->indexes_ = std::make_unique<gateway::ShardIndexes>(objects, node->store_->memory());
  node->administration_ = std::make_unique<NodeAdministration>(
      Administered{*node->store_, objects, node->quotas_->quotas(), node->audit_.get(),
                   node->cluster_ ? &node->cluster_->peers() : nullptr,
                   node->cluster_ ? std::optional(node->cluster_->joined()) : std::nullopt,
                   node->upstream_.get(), node->transforms_.get()});
  MR_TRY(node->serve(config, objects, keys, log));
  node->begin_jobs(config, log);
  return node;
}

Status Node::serve(const Config& config, store::Objects& objects, gateway::KeySource& keys, Log& log) {
  const gateway::Services services{objects,
                                   store_->memory(),
                                   *indexes_,
                                   *workers_,
                                   *movers_,
                                   log,
                                   config.short_names ? store::NameRule::kShort : store::NameRule::kS3,
                                   audit_.get(),
                                   transforms_.get()};
  const gateway::GatewayOptions options{config.insecure, listen_.is_loopback(), config.access_log,
                                        config.domains};
  job_keys_ = std::make_unique<JobKeys>(keys, make_job_key(cluster_.get()));
  gateway_ = std::make_unique<gateway::Gateway>(services, *job_keys_, *administration_, options);
  net::ServerOptions server;
  server.listen = listen_;
  server.threads = static_cast<unsigned>(config.threads);
  server.max_connections = static_cast<unsigned>(config.max_connections);
  server.busy_wait_us = config.busy_wait_us;
  server.limits = {config.idle_seconds * 1'000'000, config.head_seconds * 1'000'000,
                   config.stall_seconds * 1'000'000};
  server.certificates = certificates_.get();
  server_ = MR_TRY(net::Server::open(server, *gateway_, log));
  administration_->attach(*server_, gateway_->meters());
  server_->run();
  return {};
}

Status Node::open_transforms(const Config& config, Log& log) {
  NodeTransforms::Surroundings around;
  if (cluster_) {
    around.registry = &cluster_->joined().registry;
    around.tell_others = [part = cluster_.get()] { part->tell_everyone(); };
  }
  transforms_ = MR_TRY(NodeTransforms::open(config, std::move(around), log));
  if (cluster_) cluster_->also_refresh([made = transforms_.get()] { return made->refresh(); });
  return {};
}

// A node that cannot run jobs, say because its drive is full, serves its objects all the same.
void Node::begin_jobs(const Config& config, Log& log) {
  auto part =
      JobsPart::start({config, cluster_.get(), url(), self_signed_.empty() ? config.tls_ca : self_signed_,
                       job_keys_->own(), gateway_->meters()},
                      log);
  if (!part) {
    log.warn("this node runs no jobs", "error", part.error().message());
    return;
  }
  jobs_ = part.take();
  administration_->attach_jobs(*jobs_);
}

Status Node::begin_audit(const Config& config, gateway::KeySource& keys, Log& log) {
  if (config.audit.empty()) return {};
  audit_ = std::make_unique<AuditLog>(MR_TRY(open_audit_sink(config.audit)), store_->node_id(), log);
  AuditWatch::Watched watched{keys, {}};
  if (cluster_) watched.map = [part = cluster_.get()] { return part->member().map(); };
  audit_watch_ = std::make_unique<AuditWatch>(*audit_, std::move(watched));
  return {};
}

void Node::reopen_audit() {
  if (audit_) audit_->reopen();
}

Node::Left Node::drain(uint64_t limit_ms) {
  using Refused = net::Server::Refused;
  Left left;
  if (jobs_) jobs_->stop();
  left.of_clients = server_->drain(Refused::kUsual, limit_ms);
  if (cluster_) {
    const bool others = cluster_->count_serving() > 1;
    cluster_->hand_over();
    if (others) server_->wait_for_quiet(kQuietMs, kMostQuietMs);
  }
  const unsigned all = server_->drain(Refused::kAll, left.of_clients > 0 ? 0 : kMostQuietMs);
  left.of_nodes = all - std::min(all, left.of_clients);
  if (all > 0 && audit_) {  // the process may end without taking this down
    audit_watch_->stop();
    audit_->stop();
  }
  return left;
}

Node::~Node() {
  // Connections end first; then the threads whose work refers to their coroutines; then the coroutines, which
  // hold on to the store; the store last. Its own threads may answer until then: nobody hears them any more.
  if (jobs_) jobs_->stop();
  if (server_) server_->stop();
  if (audit_watch_) audit_watch_->stop();
  if (quotas_) quotas_->stop();
  if (workers_) workers_->stop();
  if (movers_) movers_->stop();
  if (cluster_) cluster_->also_refresh({});
  if (transforms_) transforms_->stop();
  if (upstream_) upstream_->stop();
  if (cluster_) cluster_->stop();
}

std::string Node::url() const {
  std::string host = listen_.host;
  if (host == "0.0.0.0" || host == "::") host = "127.0.0.1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return fmt::format("{}://{}:{}", certificates_ ? "https" : "http", host, server_->port());
}

}  // namespace millrace::node
