// Implements arrivals, service and completions at stations.
#include "plan/stations.h"

#include <cmath>

#include "base/assert.h"

namespace millrace::plan {

uint32_t Stations::add(double seconds, uint32_t servers) {
  Station station;
  station.service = static_cast<uint64_t>(std::llround(seconds * kPicoseconds));
  station.servers = servers;
  stations_.push_back(station);
  return static_cast<uint32_t>(stations_.size() - 1);
}

uint32_t Stations::make_job() {
  if (free_.empty()) {
    jobs_.emplace_back();
    behind_.push_back(kNone);
    return static_cast<uint32_t>(jobs_.size() - 1);
  }
  const uint32_t id = free_.back();
  free_.pop_back();
  jobs_[id] = Job();
  return id;
}

void Stations::serve(Station& station, uint32_t job) {
  ++station.busy;
  station.worked += station.service;
  events_.push({now_ + station.service, sequence_++, job});
}

void Stations::enter(uint32_t id) {
  const Job& job = jobs_[id];
  MR_ASSERT(job.at < job.length);
  Station& station = stations_[job.stops[job.at]];
  if (station.busy < station.servers) return serve(station, id);
  behind_[id] = kNone;
  if (station.first == kNone) {
    station.first = id;
  } else {
    behind_[station.last] = id;
  }
  station.last = id;
}

std::optional<uint32_t> Stations::next() {
  if (events_.empty()) return std::nullopt;
  const Event event = events_.top();
  events_.pop();
  now_ = event.time;
  const Job& job = jobs_[event.job];
  Station& station = stations_[job.stops[job.at]];
  --station.busy;
  if (station.first != kNone) {
    const uint32_t waiting = station.first;
    station.first = behind_[waiting];
    serve(station, waiting);
  }
  return event.job;
}

std::optional<uint64_t> Stations::next_time() const {
  if (events_.empty()) return std::nullopt;
  return events_.top().time;
}

double Stations::utilisation(uint32_t station, uint64_t start) const {
  const Station& one = stations_[station];
  const double all = static_cast<double>(now_ - start) * one.servers;
  return all > 0 ? static_cast<double>(one.worked) / all : 0;
}

void Stations::forget_busy() {
  for (Station& station : stations_) station.worked = 0;
}

}  // namespace millrace::plan
