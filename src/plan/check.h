// check: how fast an installation is, what limits it, what would limit it next, and what it costs.
#pragma once

#include <string>
#include <vector>

#include "plan/path.h"

namespace millrace::plan {

// One bottleneck, after all before it are widened.
struct Rung {
  Rational samples_per_second;
  std::vector<size_t> resources;  // of the path; together they are the cut
  std::string sentence;
};

struct Cost {
  Rational dollars = 0;
  std::vector<std::string> unpriced;  // parts whose price is not known
};

struct Room {
  Rational needed = 0;     // bytes, with redundancy
  Rational available = 0;  // bytes; 0: the drives' capacity is not known
  bool is_known() const { return available > 0; }
  bool fits() const { return !is_known() || needed <= available; }
};

struct Check {
  Path path;
  Flow flow;  // evened out: no drive and no GPU is busier than it must be
  Rational samples_per_second;
  Rational demand;     // samples a second that the GPUs could take
  Rational delivered;  // bytes a second into the GPUs
  Rational read;       // bytes a second off the drives, as stored
  Rational epoch_seconds;
  std::vector<Rung> ladder;  // the first is what limits now
  Cost cost;
  Room room;

  Rational gpu_utilisation() const { return samples_per_second / demand; }
  // Of a resource: what is used of it, with reserved traffic.
  Rational used(const Resource& resource) const;
  Rational utilisation(const Resource& resource) const { return used(resource) / resource.total(); }
  bool limits(size_t resource) const;  // is in the first cut
  // How many of a resource's parts keep all GPUs busy.
  uint64_t needed(const Resource& resource) const;
};

Result<Check> check(const Installation& plan);

// "3.2 GB/s" or "1 786 samples/s", as the resource counts.
std::string format_rate(const Resource& resource, const Rational& amount);
std::string format_rate(const Rational& bytes);
// "3.2 GB/s of 5.0 GB/s", "800 of 1 786 samples/s".
std::string format_used(const Resource& resource, const Rational& used);
std::string format_percent(const Rational& share);
std::string format_seconds(const Rational& seconds);   // "9.3 hours"
std::string format_dollars(const Rational& dollars);   // "$35 000"
std::string format_duration(const Rational& seconds);  // "9 hours", in whole hours, days or weeks

}  // namespace millrace::plan
