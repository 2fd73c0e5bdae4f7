// Config: everything that can be set about a node, in one typed struct.
//
// From a TOML file, MILLRACE_… variables and flags, each overriding the one before. `millrace config` prints
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/settings.h"
#include "store/options.h"

namespace millrace::node {

struct Config {
  std::string listen = "127.0.0.1:9400";
  std::string data = "./millrace-data";
  std::vector<std::string> drives;
  std::vector<std::string> domains = {"localhost"};
  bool short_names = false;
  bool insecure = false;
  std::string registry;
  std::string advertise;
  std::string zone;
  std::string join;
  uint64_t lease_seconds = 6;
  uint64_t heal_after_seconds = 600;
  uint64_t heal_share_percent = 20;
  uint64_t keep_replaced_seconds = 60;
  uint64_t nearly_full_percent = store::StoreOptions().nearly_full_percent;
  std::string tls;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  uint64_t threads = 0;
  uint64_t workers = 32;
  uint64_t max_connections = 10'000;
  uint64_t busy_wait_us = 50;
  uint64_t idle_seconds = 75;
  uint64_t head_seconds = 20;
  uint64_t stall_seconds = 60;
  bool access_log = false;
  std::string upstream_ca;
  uint64_t upstream_memory = 256 << 20;
  uint64_t upstream_timeout_seconds = 20;
  uint64_t evict_above_percent = 90;
  uint64_t evict_to_percent = 85;
  uint64_t transform_runs = 16;
  uint64_t transform_keep = uint64_t{20} << 30;
  std::string audit;
  uint64_t job_slots = 0;
  uint64_t job_share_percent = 50;
  std::string job_sandbox = "bwrap";
  std::vector<std::string> job_paths;
  uint64_t stop_seconds = 30;
  store::StoreOptions store;
  uint64_t reads_in_flight = 0;
  uint64_t open_files = store::StoreOptions().open_files;

  // The table over this struct's variables; the struct must stay where it is.
  Settings settings();
  // An error that names the setting and its range where no node could run with it.
  Status check() const;
  // What the store is opened with.
  store::StoreOptions store_options() const;
};

}  // namespace millrace::node
