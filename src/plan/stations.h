// Stations: the engine of the simulation. Jobs visit one station after the other; a station has so many
// servers, serves in the order of arrival, and takes the same time for every job.
//
// Time is in picoseconds, whole: events at the same time happen in the order in which they were made, so the
// same plan and seed give the same run everywhere. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

namespace millrace::plan {

constexpr size_t kMostStops = 32;
constexpr double kPicoseconds = 1e12;

struct Job {
  std::array<uint32_t, kMostStops> stops{};  // stations, in order
  uint32_t length = 0;
  uint32_t at = 0;       // which stop it waits for or is served at
  uint32_t arrival = 0;  // for the caller
  uint32_t owner = 0;    // for the caller
  uint32_t reader = 0;   // for the caller
};

class Stations {
 public:
  uint32_t add(double seconds, uint32_t servers);

  // A job of the caller's making, from the pool; its place in it.
  uint32_t make_job();
  Job& job(uint32_t id) { return jobs_[id]; }
  void free_job(uint32_t id) { free_.push_back(id); }

  // Sends a job to its stop `at`.
  void enter(uint32_t id);
  // The next job that a station has finished with; nothing where no job is under way. It is the caller's to
  // send on.
  std::optional<uint32_t> next();

  uint64_t now() const { return now_; }
  void set_now(uint64_t time) { now_ = time; }  // forward, and not beyond next_time()
  std::optional<uint64_t> next_time() const;
  uint64_t events() const { return sequence_; }
  // What share of the time since `start` its servers were busy.
  double utilisation(uint32_t station, uint64_t start) const;
  void forget_busy();  // utilisation counts from now

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Station {
    uint64_t service = 0;
    uint32_t servers = 1;
    uint32_t busy = 0;
    uint32_t first = kNone, last = kNone;  // who waits
    uint64_t worked = 0;
  };
  struct Event {
    uint64_t time;
    uint64_t sequence;
    uint32_t job;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };
  void serve(Station& station, uint32_t job);

  std::vector<Station> stations_;
  std::vector<Job> jobs_;
  std::vector<uint32_t> behind_;  // by job: who waits behind it
  std::vector<uint32_t> free_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t now_ = 0;
  uint64_t sequence_ = 0;
};

}  // namespace millrace::plan
