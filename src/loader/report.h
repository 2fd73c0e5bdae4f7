// Report: which stage of a loader limits it, by how much, and what to change.
#pragma once

#include <string>

#include "loader/loader.h"

namespace millrace::loader {

struct StageReport {
  std::string name;
  uint64_t count = 0;
  double per_second = 0;  // of what it counts
  uint64_t bytes = 0;
  double busy_seconds = 0;  // over its threads
  unsigned threads = 0;
  double busy_share = 0;  // of the threads' time; 0..1
};

struct Report {
  double seconds = 0;
  uint64_t samples = 0;
  uint64_t batches = 0;
  uint64_t bytes = 0;  // encoded
  double samples_per_second = 0;
  double bytes_per_second = 0;
  double waited_seconds = 0;      // the consumer, for batches
  double waited_bytes_share = 0;  // of the time of the threads that untar and decode: for bytes
  double waited_room_share = 0;   // the same: for the consumer to take a batch
  double ready_batches = 0;       // that lay ready when one was taken, on average
  std::vector<StageReport> stages;
  std::string limit;   // consumer, python, plan, fetch or decode
  std::string advice;  // one sentence with the numbers
  uint64_t memory_peak = 0;
  uint64_t faults = 0;
  std::string note;  // where something was chosen: how shuffling reads, what the caches hold
};

Report make_report(const Loader& loader);
std::string format_report(const Report& report);       // a table for a person
std::string format_report_json(const Report& report);  // one object

}  // namespace millrace::loader
