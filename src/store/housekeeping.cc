// Regular work on drives: probes, drains, expired uploads, reconciling.
#include "store/housekeeping.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/units.h"
#include "store/reconcile.h"
#include "store/sweep.h"

namespace millrace::store {

namespace {

constexpr auto kRound = std::chrono::seconds(1);
constexpr uint64_t kMovesFor_us = 1'000'000;

}  // namespace

void Housekeeper::start() {
  thread_.start(kRound, [this] { round(); });
}

void Housekeeper::sweep_unclean() {
  const std::shared_ptr<const DriveMap> drives = core_.map();
  for (const auto& drive : drives->drives) {
    if (!drive->was_clean() && !report_loss(*drive)) sweep(*drive);
  }
}

void Housekeeper::round() {
  if (!std::exchange(has_swept_, true)) sweep_unclean();
  if (!goes_on()) return;
  core_.close_retired();
  return_memory();
  for (const auto& drive : core_.map()->drives) {
    if (drive->check_place()) drive->restore_reserve();
  }
  probe_failed();
  judge_pace();
  reconcile_drives(core_, [this] { return goes_on(); });
  forget_marks(core_, [this] { return goes_on(); });
  // By turns with the rest: a drive takes hours to drain.
  const uint64_t until_us = steady_us() + kMovesFor_us;
  bool is_cut = false;
  mover_.run([&] {
    is_cut = steady_us() >= until_us;
    return !is_cut && goes_on();
  });
  if (is_cut) wake();
  expire_uploads();
}

void Housekeeper::expire_uploads() {
  constexpr uint64_t kExpireEvery_us = 60'000'000;
  const uint64_t every_us = std::min(kExpireEvery_us, core_.options.upload_expiry_seconds * 1'000'000);
  if (expired_us_ != 0 && steady_us() - expired_us_ < every_us) return;
  expired_us_ = steady_us();
  const auto age_ms = static_cast<int64_t>(core_.options.upload_expiry_seconds * 1000);
  const size_t expired = multipart_.expire(wall_ms() - age_ms);
  if (expired > 0) core_.log.info("aborted abandoned uploads", "count", expired);
}

void Housekeeper::sweep(Drive& drive) {
  const auto report = sweep_drive(core_, drive, [this] { return goes_on(); });
  // A sweep that did not reach its end is done again at the next start.
  if (!report || !goes_on()) drive.need_sweep();
  if (!report) {
    core_.log.warn("cannot sweep a drive", "drive", drive.path(), "why", report.error().message());
  } else {
    core_.log.info("swept a drive", "drive", drive.path(), "files", report->files, "removed", report->removed,
                   "removed_bytes", report->removed_bytes, "missing", report->missing);
  }
}

void Housekeeper::probe_failed() {
  const std::shared_ptr<const DriveMap> drives = core_.map();
  for (const auto& drive : drives->drives) {
    if (drive->state() != DriveState::kFailed) continue;
    const auto recovery = drive->probe();
    if (!recovery) continue;
    core_.log.warn("drive takes writes again", "drive", drive->path());
    catch_up(drive, *recovery);
  }
}

void Housekeeper::catch_up(const std::shared_ptr<Drive>& drive, DriveIndex::Recovery recovery) {
  if (recovery == DriveIndex::Recovery::kReopened) {
    {
      // Uploads and objects whose change was refused may have been changed after all.
      const WriteLock topology(core_.topology);
      core_.uploads.erase_of(*drive);
      Status loaded = Multipart::load(core_, drive);
      if (!loaded) static_cast<void>(drive->note(loaded.take_error()));
      core_.cache.clear();
    }
    if (report_loss(*drive)) return;
  }
  // An index that only went on after a refused write may still show it after a restart, and then its files
  // must be there.
  if (recovery != DriveIndex::Recovery::kResumed && drive->take_need_of_sweep()) sweep(*drive);
  // Buckets may have been made and changed meanwhile.
  const MutexLock lock(core_.admin);
  Status saved = core_.save_buckets(*drive);
  if (!saved) static_cast<void>(drive->note(saved.take_error()));
}

bool Housekeeper::report_loss(Drive& drive) {
  const std::string lost = drive.index().lost_log();
  if (lost.empty()) return false;
  // Files of commits that the log lost look like litter now: they stay, for fsck to find.
  core_.log.warn(
      "the end of a drive's index log is damaged: its last commits may be missing; not swept: "
      "millrace fsck --rebuild finds their files",
      "drive", drive.path(), "what", lost);
  core_.report({"", "", drive.path(), 0, "the end of the index's log is damaged: " + lost});
  drive.need_sweep();
  return true;
}

void Housekeeper::return_memory() {
  // What requests held is freed, but the C library keeps it until it is told.
  constexpr uint64_t kWorthIt = 64 << 20;
  uint64_t used = 0;
  for (Budget* budget : {&core_.memory.documents, &core_.memory.indexes, &core_.memory.work}) {
    held_ += budget->take_peak();
    used += budget->used();
  }
  if (held_ < kWorthIt || used > kWorthIt / 4) return;
  held_ = 0;
  ::malloc_trim(0);
}

void Housekeeper::judge_pace() {
  const std::shared_ptr<const DriveMap> drives = core_.map();
  const uint64_t now_us = steady_us();
  std::vector<PaceWatch::Reading> readings;
  for (const auto& drive : drives->drives) {
    if (drive->state() == DriveState::kSlow && pace_.is_rested(now_us, drive->id())) {
      drive->mark_rested();
      core_.log.warn("a slow drive gets new objects again", "drive", drive->path());
    }
    if (drive->state() != DriveState::kServing) continue;
    readings.push_back(
        {drive->id(), drive->rotational(), drive->writes.read().bytes, drive->writing.read_us()});
  }
  for (const PaceWatch::Verdict& verdict : pace_.judge(now_us, readings)) {
    const std::shared_ptr<Drive> drive = drives->find(verdict.id);
    drive->mark_slow(fmt::format("it writes {}/s, the others {}/s", format_bytes(verdict.bytes_per_second),
                                 format_bytes(verdict.peers_bytes_per_second)));
    core_.log.warn("a drive is much slower than the others and gets no new objects for a while", "drive",
                   drive->path(), "why", drive->reason(), "rest_seconds", verdict.rest_us / 1'000'000);
  }
}

}  // namespace millrace::store
