// Puts the node's counters into Prometheus' own types, so that the text format is theirs.
#include "node/prometheus.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/clock.h"

namespace millrace::node {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Families {
 public:
  void add(const std::string& name, const std::string& help, MetricType type, Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    if (type == MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    family(name, help, type).metric.push_back(std::move(metric));
  }

  void add(const std::string& name, const std::string& help, Labels labels, const Meter::Reading& reading) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.histogram.sample_count = reading.count;
    metric.histogram.sample_sum = static_cast<double>(reading.microseconds) / 1e6;
    uint64_t below = 0;
    for (size_t i = 0; i < reading.buckets.size(); ++i) {
      below += reading.buckets[i];
      ClientMetric::Bucket bucket;
      bucket.cumulative_count = below;
      bucket.upper_bound = i < Meter::kBounds.size() ? static_cast<double>(Meter::kBounds[i]) / 1e6
                                                     : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back(bucket);
    }
    family(name, help, MetricType::Histogram).metric.push_back(std::move(metric));
  }

  const std::vector<MetricFamily>& all() const { return families_; }

 private:
  MetricFamily& family(const std::string& name, const std::string& help, MetricType type) {
    const auto found = std::find_if(families_.begin(), families_.end(),
                                    [&](const MetricFamily& known) { return known.name == name; });
    if (found != families_.end()) return *found;
    MetricFamily made;
    made.name = name;
    made.help = help;
    made.type = type;
    families_.push_back(std::move(made));
    return families_.back();
  }
  std::vector<MetricFamily> families_;
};

void add_drive(Families& families, const store::DriveStatus& drive) {
  const Labels labels = {{"drive", drive.path}};
  const auto gauge = [&](const std::string& name, const std::string& help, uint64_t value) {
    families.add("millrace_drive_" + name, help, MetricType::Gauge, labels, static_cast<double>(value));
  };
  gauge("serving", "1 where the drive serves", drive.state == store::DriveState::kServing ? 1 : 0);
  gauge("total_bytes", "Size of the file system", drive.total_bytes);
  gauge("free_bytes", "Free space", drive.free_bytes);
  gauge("free_inodes", "Free inodes", drive.free_inodes);
  gauge("objects", "Objects, as the index estimates", drive.objects);
  gauge("queue_reads", "Windows that wait to be read", drive.queue_reads);
  gauge("queue_writes", "Commits and blocks that wait to be written", drive.queue_writes);
  const std::pair<std::string, const Meter::Reading*> kinds[] = {
      {"read", &drive.reads}, {"write", &drive.writes}, {"commit", &drive.commits}};
  for (const auto& [kind, reading] : kinds) {
    const Labels both = {{"drive", drive.path}, {"kind", kind}};
    families.add("millrace_drive_bytes_total", "Bytes read and written", MetricType::Counter, both,
                 static_cast<double>(reading->bytes));
    families.add("millrace_drive_errors_total", "Operations that failed", MetricType::Counter, both,
                 static_cast<double>(reading->errors));
    families.add("millrace_drive_seconds", "Duration of drive operations", both, *reading);
  }
}

void add_upstream(Families& families, const upstream::UpstreamObjects& objects) {
  const upstream::FetchCounts fetches = objects.counts();
  const upstream::EvictionCounts evicted = objects.evicted();
  const auto add = [&](const std::string& name, const std::string& help, MetricType type, uint64_t value) {
    families.add("millrace_upstream_" + name, help, type, {}, static_cast<double>(value));
  };
  add("fetches_stored_total", "Objects that were fetched from upstreams and stored", MetricType::Counter,
      fetches.stored);
  add("fetches_failed_total", "Fetches that were not stored", MetricType::Counter, fetches.failed);
  add("fetched_bytes_total", "Bytes of the objects that were stored", MetricType::Counter, fetches.bytes);
  add("fetches_running", "Fetches under way", MetricType::Gauge, fetches.running);
  add("fetches_waiting", "Fetches that wait for their turn", MetricType::Gauge, fetches.waiting);
  add("evicted_objects_total", "Copies that were removed to make room", MetricType::Counter, evicted.objects);
  add("evicted_bytes_total", "Bytes of these copies", MetricType::Counter, evicted.bytes);
}

void add_transforms(Families& families, const NodeTransforms& transforms) {
  for (const transform::Counted& one : transforms.engine().read()) {
    const Labels labels = {{"transform", one.name}};
    const auto counter = [&](const std::string& name, const std::string& help, uint64_t value) {
      families.add("millrace_transform_" + name, help, MetricType::Counter, labels,
                   static_cast<double>(value));
    };
    families.add("millrace_transform_seconds", "Duration of runs", labels, one.runs);
    counter("failures_total", "Runs that failed", one.runs.errors);
    counter("received_bytes_total", "Bytes of shards that runs read", one.bytes_in);
    counter("sent_bytes_total", "Bytes of results", one.runs.bytes);
    counter("samples_failed_total", "Samples that were left out or kept as they were", one.samples_failed);
  }
  const transform::KeptResults::Reading kept = transforms.kept();
  const auto add = [&](const std::string& name, const std::string& help, MetricType type, uint64_t value) {
    families.add("millrace_transform_" + name, help, type, {}, static_cast<double>(value));
  };
  add("sandboxes", "Programs that run in sandboxes, Python workers too", MetricType::Gauge,
      transforms.engine().sandboxes());
  add("kept_results", "Results that are kept", MetricType::Gauge, kept.results);
  add("kept_bytes", "Bytes of these results", MetricType::Gauge, kept.bytes);
  add("kept_hits_total", "Requests that were answered with them", MetricType::Counter, kept.hits);
  add("kept_evicted_total", "Results that went to make room", MetricType::Counter, kept.evicted);
}

void add_cluster(Families& families, const JoinedCluster& joined) {
  const cluster::Member& member = joined.member;
  const auto map = member.map();
  const auto gauge = [&](const std::string& name, const std::string& help, double value) {
    families.add("millrace_cluster_" + name, help, MetricType::Gauge, {}, value);
  };
  gauge("epoch", "Number of the newest map that this node knows", map->epoch());
  gauge("has_lease", "1 while this node may act", member.has_lease() ? 1 : 0);
  if (const auto age = member.lease_age_us())
    gauge("lease_age_seconds",
          "Since the lease of this node was renewed; at the setting lease it acts no more",
          static_cast<double>(*age) / 1e6);
  gauge("leader", "1 where this node leads the cluster", member.is_leader() ? 1 : 0);
  const auto counter = [&](const std::string& name, const std::string& help, uint64_t value) {
    families.add("millrace_requests_" + name, help, MetricType::Counter, {}, static_cast<double>(value));
  };
  const cluster::ReadCounts& reads = joined.cluster.read_counts();
  counter("relayed_total", "Reads with bytes that other nodes had", reads.relayed);
  counter("degraded_total", "Reads that a missing slice sent to other slices", reads.degraded);
  counter("hedged_total", "Stretches read from other slices because a holder was slow", reads.hedged);
  const cluster::Progress progress = joined.cluster.progress();
  gauge("objects", "Objects whose first holder is on this node", static_cast<double>(progress.objects));
  gauge("objects_below_redundancy", "Those of them that lack slices", static_cast<double>(progress.below));
  gauge("objects_below_floor", "Those of them that have fewer slices than a write needs",
        static_cast<double>(progress.below_floor));
  gauge("bytes_to_move", "Bytes of the slices that they lack", static_cast<double>(progress.to_move_bytes));
  gauge("clean_epoch", "Epoch of the last walk that found all objects in order", progress.clean);
  const auto healed = [&](const std::string& name, const std::string& help, uint64_t value) {
    families.add("millrace_cluster_" + name, help, MetricType::Counter, {}, static_cast<double>(value));
  };
  healed("moved_bytes_total", "Bytes of slices that this node had made or moved", progress.built_bytes);
  healed("moved_slices_total", "Slices that this node had made or moved", progress.built);
  healed("forgotten_total", "Entries of objects that lie elsewhere, and tombstones, that went",
         progress.forgotten);
  gauge("damaged_slices", "Slices on this node's drives that wait to be made again",
        static_cast<double>(progress.damaged));
  healed("repaired_slices_total", "Damaged slices that were made again", progress.repaired);
  using State = cluster::NodeState;
  for (const State state : {State::kServing, State::kDraining, State::kAway, State::kGone}) {
    const auto count = std::ranges::count(map->nodes(), state, &cluster::MapNode::state);
    families.add("millrace_cluster_nodes", "Nodes of the map by state", MetricType::Gauge,
                 {{"state", std::string(cluster::name_of(state))}}, static_cast<double>(count));
  }
  const cluster::MapNode* const self = map->find_node(member.self());
  if (self != nullptr)
    gauge("full_drives", "Drives of this node that are nearly full and get no new slices",
          static_cast<double>(std::ranges::count(self->drives, true, &cluster::MapDrive::full)));
  for (const cluster::HttpPeers::Reading& reading : joined.links.read()) {
    const Labels labels = {{"node", std::to_string(reading.node)}};
    families.add("millrace_peer_answers_total", "Answers of other nodes", MetricType::Counter, labels,
                 static_cast<double>(reading.answers));
    families.add("millrace_peer_failures_total", "Messages to other nodes without a good answer",
                 MetricType::Counter, labels, static_cast<double>(reading.failures));
    families.add("millrace_peer_mean_answer_seconds", "Mean time of the last small answers",
                 MetricType::Gauge, labels, static_cast<double>(reading.times.mean_us) / 1e6);
    families.add(
        "millrace_peer_grey", "1 while the node answers late or not at all, so that others are asked first",
        MetricType::Gauge, labels, reading.times.standing == cluster::AnswerTimes::Standing::kPrompt ? 0 : 1);
  }
}

void add_jobs(Families& families, const jobs::RunnerReading& reading) {
  const auto count = [&](const char* result, uint64_t tasks) {
    families.add("millrace_job_tasks_total", "Tasks of jobs that this node ran", MetricType::Counter,
                 {{"result", result}}, static_cast<double>(tasks));
  };
  count("done", reading.done);
  count("failed", reading.failed);
  count("given_back", reading.given_back);
  families.add("millrace_job_tasks_running", "Tasks of jobs under way on this node", MetricType::Gauge, {},
               reading.running);
  families.add("millrace_job_slots_allowed",
               "Tasks that this node may run at a time now: fewer while clients "
               "ask for objects",
               MetricType::Gauge, {}, reading.allowed);
}

}  // namespace

std::string prometheus_text(const Counted& counted) {
  Families families;
  for (const gateway::MeterReading& reading : counted.meters.read()) {
    const Labels labels = {{"operation", std::string(reading.meter)}};
    families.add("millrace_request_seconds", "Duration of requests", labels, reading.out);
    families.add("millrace_request_sent_bytes_total", "Bytes sent", MetricType::Counter, labels,
                 static_cast<double>(reading.out.bytes));
    families.add("millrace_request_received_bytes_total", "Bytes received", MetricType::Counter, labels,
                 static_cast<double>(reading.bytes_in));
    Labels server_errors = labels;
    server_errors.push_back({"side", "server"});
    families.add("millrace_request_errors_total", "Requests that failed", MetricType::Counter, server_errors,
                 static_cast<double>(reading.out.errors));
    Labels client_errors = labels;
    client_errors.push_back({"side", "client"});
    families.add("millrace_request_errors_total", "Requests that failed", MetricType::Counter, client_errors,
                 static_cast<double>(reading.client_errors));
  }
  families.add("millrace_requests_redirected_total", "Reads that were sent to the node that has the bytes",
               MetricType::Counter, {}, static_cast<double>(counted.meters.redirected()));
  for (const store::DriveStatus& drive : counted.drives.status()) add_drive(families, drive);
  const store::ScrubStatus scrub = counted.drives.scrub_status();
  families.add("millrace_scrub_bytes_total", "Bytes that the scrubber compared in this cycle",
               MetricType::Gauge, {}, static_cast<double>(scrub.bytes_done));
  families.add("millrace_scrub_cycles_total", "Whole cycles of the scrubber", MetricType::Counter, {},
               static_cast<double>(scrub.cycles));
  families.add("millrace_damaged_objects_total", "Damage found since start", MetricType::Counter, {},
               static_cast<double>(scrub.damaged));
  families.add("millrace_connections", "Open connections", MetricType::Gauge, {},
               counted.server.connections());
  families.add("millrace_requests_under_way", "Requests being served", MetricType::Gauge, {},
               counted.server.requests_under_way());
  families.add("millrace_cpu_seconds_total", "Processor time", MetricType::Counter, {},
               process_cpu_seconds());
  families.add("millrace_quota_refused_total", "Writes that the quota of their bucket had no room for",
               MetricType::Counter, {}, static_cast<double>(counted.quotas.refused()));
  if (counted.audit != nullptr) {
    const AuditLog::Reading audit = counted.audit->read();
    families.add("millrace_audit_lines_total", "Lines of the audit that were written", MetricType::Counter,
                 {}, static_cast<double>(audit.written));
    families.add("millrace_audit_lost_total", "Lines of the audit that nobody took in time",
                 MetricType::Counter, {}, static_cast<double>(audit.lost));
  }
  if (counted.upstream != nullptr) add_upstream(families, *counted.upstream);
  if (counted.transforms != nullptr) add_transforms(families, *counted.transforms);
  if (counted.joined != nullptr) add_cluster(families, *counted.joined);
  if (counted.jobs != nullptr) add_jobs(families, counted.jobs->read());
  return prometheus::TextSerializer().Serialize(families.all());
}

}  // namespace millrace::node
