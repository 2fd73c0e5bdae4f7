// The table of settings, with a sentence for each.
#include "node/config.h"

#include "gateway/host_name.h"

namespace millrace::node {

namespace {

void add_cluster_settings(Settings& table, Config& config) {
  using Unit = Settings::Unit;
  table.add("registry", config.registry,
            "Makes the node one of a cluster: a directory that all its nodes on this machine share, or "
            "etcd://HOST:2379,HOST:2379. Empty: the node is alone.");
  table.add("advertise", config.advertise,
            "HOST:PORT under which other nodes reach this one. Empty: what it listens on.");
  table.add("zone", config.zone, "Rack, room or site of the node: slices of an object go to different ones.");
  table.add("join", config.join,
            "Token that lets a new node into a cluster with etcd (millrace cluster token).");
  table.add(
      "tls_ca", config.tls_ca,
      "Certificates (PEM) by which this node knows other nodes of its cluster. Empty: those of the system.");
  table.add(
      "lease", config.lease_seconds, Unit::kSeconds,
      "How long a node of a cluster may act after the registry heard it last. When it dies, others write "
      "the keys that it was home of after that time.");
  table.add("heal_after", config.heal_after_seconds, Unit::kSeconds,
            "How long a cluster waits for a node or drive that is away, before its slices are made anew.");
  table.add(
      "heal_share", config.heal_share_percent, Unit::kCount,
      "Share of the time that making and moving slices may take on a node whose clients ask for objects, in "
      "percent. While nobody asks, it takes all of it.");
  table.add(
      "keep_replaced", config.keep_replaced_seconds, Unit::kSeconds,
      "How long a cluster keeps the bytes of an object that was replaced, removed or moved, for readers in "
      "the middle of it.");
  table.add("nearly_full", config.nearly_full_percent, Unit::kCount,
            "A drive of a cluster that is used to so many percent gets no new slices: other drives take its "
            "turn.");
}

void add_upstream_settings(Settings& table, Config& config) {
  using Unit = Settings::Unit;
  table.add("upstream_memory", config.upstream_memory, Unit::kBytes,
            "Memory for bytes that come from the upstreams of buckets.");
  table.add("upstream_ca", config.upstream_ca,
            "Certificates (PEM) by which this node knows upstreams. Empty: those of the system.");
  table.add("upstream_timeout", config.upstream_timeout_seconds, Unit::kSeconds,
            "How long an upstream may be silent before whoever waits for it is told.");
  table.add(
      "evict_above", config.evict_above_percent, Unit::kCount,
      "Percent of a drive in use above which copies of upstream objects are removed, the longest unread "
      "first.");
  table.add("evict_to", config.evict_to_percent, Unit::kCount,
            "Percent of a drive in use down to which they are.");
}

void add_transform_settings(Settings& table, Config& config) {
  using Unit = Settings::Unit;
  table.add("transform_runs", config.transform_runs, Unit::kCount,
            "Transforms that run at a time; others wait. Each takes up to 8 MiB of request_memory.");
  table.add(
      "transform_keep", config.transform_keep, Unit::kBytes,
      "Room for results of transforms that are kept (--keep), in the node's own directory. They go first "
      "when the drive is used beyond evict_to. 0: nothing is kept.");
}

void add_job_settings(Settings& table, Config& config) {
  using Unit = Settings::Unit;
  table.add("job_slots", config.job_slots, Unit::kCount,
            "Tasks of jobs that this node runs at a time, each in a process of its own. 0: one per core.");
  table.add("job_share", config.job_share_percent, Unit::kCount,
            "Percent of the slots that jobs may use while clients ask for objects; at least one slot.");
  table.add("job_sandbox", config.job_sandbox,
            "What confines the commands of jobs: \"bwrap\" (bubblewrap: no network, no files of this "
            "machine but its programs), or \"none\" where you trust whoever starts jobs.");
  table.add("job_paths", config.job_paths,
            "Directories that commands of jobs may read beside the system's programs, such as a Python "
            "environment.");
}

}  // namespace

Settings Config::settings() {
  using Unit = Settings::Unit;
  Settings table;
  table.add("listen", listen, "Address and port. Beyond loopback it needs keys, or insecure = true.");
  table.add(
      "data", data,
      "Directory of the node's own state: identity, keys, list of drives. Without drives also the data.");
  table.add("drives", drives, "Directories that hold the data, one per physical drive.");
  table.add(
      "domains", domains,
      "Names of this node before which clients may put a bucket: BUCKET.DOMAIN. Requests to other names with "
      "a dot are refused.");
  table.add("short_names", short_names,
            "Let buckets have names of one and two characters, and other names that S3 "
            "does not allow.");
  table.add("insecure", insecure, "Let everyone do everything without keys, also beyond loopback.");
  add_cluster_settings(table, *this);
  table.add("tls", tls,
            "\"self-signed\" makes a certificate for trials; empty: tls_cert and tls_key, or plain HTTP.");
  table.add("tls_cert", tls_cert, "Certificate chain (PEM). Read again when it changes.");
  table.add("tls_key", tls_key, "Private key (PEM) of the certificate.");
  table.add("threads", threads, Unit::kCount, "Threads that serve connections. 0: one per core.");
  table.add(
      "workers", workers, Unit::kCount,
      "Threads in each of four pools: the store has one for lookups and one for lists, the gateway one for "
      "short calls and one for copies and batches. 32 make 128 threads.");
  table.add("max_connections", max_connections, Unit::kCount,
            "Connections at a time; more are answered 503.");
  table.add(
      "busy_wait_us", busy_wait_us, Unit::kCount,
      "Microseconds a serving thread looks for the next request before it sleeps. 0: it sleeps at once.");
  table.add("idle_seconds", idle_seconds, Unit::kSeconds,
            "How long a connection may stay open between two requests.");
  table.add("head_seconds", head_seconds, Unit::kSeconds,
            "How long the head of a request may take from its first byte to its last.");
  table.add("stall_seconds", stall_seconds, Unit::kSeconds,
            "How long a body may stand still, in either direction, before the connection is cut.");
  table.add("access_log", access_log, "Log every request as key=value on standard error.");
  table.add("audit", audit,
            "Who did what to which object, one JSON object a line: a file, or \"syslog\". SIGHUP opens the "
            "file anew. Empty: nothing is kept.");
  add_upstream_settings(table, *this);
  add_transform_settings(table, *this);
  add_job_settings(table, *this);
  table.add("stop_seconds", stop_seconds, Unit::kSeconds,
            "How long requests under way may take to finish when the node stops.");
  table.add("read_window", store.read_window, Unit::kBytes,
            "One sequential read of one stream. Larger is better on rotational drives with many readers.");
  table.add("reads_in_flight", reads_in_flight, Unit::kCount,
            "Windows read at a time per drive. 0: 1 on rotational drives, else 4.");
  table.add("reserve", store.reserve_bytes, Unit::kBytes,
            "A drive with less free space takes no new objects (at most 5 % of the drive).");
  table.add(
      "request_memory", store.request_bytes, Unit::kBytes,
      "What all requests under way may make the node hold: bodies, plans, lists, indexes. Others wait.");
  table.add("cache", store.cache_bytes, Unit::kBytes, "Memory for small objects and records.");
  table.add("open_files", open_files, Unit::kCount, "Files of hot objects that are kept open.");
  table.add("direct_io", store.direct_io, "Write large objects past the page cache (O_DIRECT, io_uring).");
  table.add("scrub_rate", store.scrub_bytes_per_second, Unit::kBytes,
            "Bytes per second that the scrubber reads. 0: no scrubbing.");
  table.add("scrub_cycle", store.scrub_cycle_seconds, Unit::kSeconds,
            "How often everything is scrubbed once.");
  table.add("upload_expiry", store.upload_expiry_seconds, Unit::kSeconds,
            "Multipart uploads that are abandoned for this long are removed.");
  return table;
}

Status Config::check() const {
  struct Range {
    std::string_view name;
    uint64_t value;
    uint64_t least;
    uint64_t most;
  };
  constexpr uint64_t kYear = 366 * 86400;
  const Range ranges[] = {
      {"threads", threads, 0, 256},
      {"workers", workers, 1, 512},
      {"max_connections", max_connections, 1, 1'000'000},
      {"busy_wait_us", busy_wait_us, 0, 100'000},
      {"idle_seconds", idle_seconds, 1, kYear},
      {"head_seconds", head_seconds, 1, kYear},
      {"stall_seconds", stall_seconds, 1, kYear},
      {"stop_seconds", stop_seconds, 0, kYear},
      {"upstream_memory", upstream_memory, 16 << 20, uint64_t{1} << 40},
      {"upstream_timeout", upstream_timeout_seconds, 1, 3600},
      {"evict_above", evict_above_percent, 1, 100},
      {"evict_to", evict_to_percent, 0, evict_above_percent},
      {"transform_runs", transform_runs, 1, 256},
      {"transform_keep", transform_keep, 0, uint64_t{1} << 50},
      {"read_window", store.read_window, 64 << 10, 1 << 30},
      {"reads_in_flight", reads_in_flight, 0, 1024},
      {"open_files", open_files, 1, 10'000'000},
      {"scrub_cycle", store.scrub_cycle_seconds, 1, 100 * kYear},
      {"lease", lease_seconds, 2, 60},
      {"heal_after", heal_after_seconds, 0, kYear},
      {"heal_share", heal_share_percent, 1, 100},
      {"keep_replaced", keep_replaced_seconds, 1, 3600},
      {"nearly_full", nearly_full_percent, 1, 100},
      {"job_slots", job_slots, 0, 1024},
      {"job_share", job_share_percent, 1, 100},
      {"upload_expiry", store.upload_expiry_seconds, 1, 100 * kYear},
  };
  MR_TRY(gateway::check_domains(domains));
  if (!registry.empty() && advertise.empty() &&
      (listen.ends_with(":0") || listen.starts_with(":") || listen.starts_with("0.0.0.0:") ||
       listen.starts_with("[::]:")))
    return make_error(Code::kInvalid, "other nodes cannot reach {}", listen)
        .with_hint("listen on an address and port of this machine, or set advertise=HOST:PORT");
  if (!registry.empty() && !tls.empty())
    return make_error(Code::kInvalid,
                      "the other nodes of a cluster do not know a certificate of tls = \"{}\"", tls)
        .with_hint(
            "tls_cert and tls_key, with a certificate for the node's address; tls_ca names who signed it");
  if (registry.empty() && !tls_ca.empty())
    return make_error(Code::kInvalid, "tls_ca is for nodes of a cluster, and there is no registry");
  if (data.empty()) return make_error(Code::kInvalid, "data is empty: it is the node's own directory");
  for (const Range& range : ranges) {
    if (range.value >= range.least && range.value <= range.most) continue;
    return make_error(Code::kInvalid, "{} is {}: it must be from {} to {}", range.name, range.value,
                      range.least, range.most)
        .with_hint("millrace config prints every setting with its default");
  }
  return {};
}

store::StoreOptions Config::store_options() const {
  store::StoreOptions options = store;
  options.state_directory = data;
  options.drives = drives;
  options.reads_in_flight = static_cast<unsigned>(reads_in_flight);
  options.open_files = static_cast<unsigned>(open_files);
  options.workers = static_cast<unsigned>(workers);
  options.nearly_full_percent = static_cast<unsigned>(nearly_full_percent);
  return options;
}

}  // namespace millrace::node
