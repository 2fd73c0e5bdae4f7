// Which drives there are.
#include "store/attach.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "store/block_writer.h"
#include "store/commit.h"
#include "store/multipart.h"

namespace millrace::store {

namespace {

// Faults of one drive: the others serve. Everything else (another node's, in use) is a mistake of whoever
// starts us.
bool is_of_the_drive(const Error& error) {
  return error.code() != Code::kInvalid && error.code() != Code::kUnavailable;
}

bool is_same_place(const std::string& one, const std::string& other) {
  const auto identity = find_identity(one);
  return identity && find_identity(other) == identity;
}

bool lies_inside(const std::string& path, const std::string& directory) {
  std::error_code unknown;
  const std::string inner = std::filesystem::weakly_canonical(path, unknown).string();
  const std::string outer = std::filesystem::weakly_canonical(directory, unknown).string();
  return inner.size() > outer.size() + 1 && inner.starts_with(outer + "/");
}

Status make_directories(const std::string& path) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0755) != 0 && errno != EEXIST)
      return make_system_error(errno, "making directory " + part);
    if (at == std::string::npos) break;
  }
  // The name of a new directory is durable once its parent is flushed; one that may not be read is not ours
  // to flush.
  const std::string parent = directory_of(path);
  const int descriptor = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return descriptor < 0 ? Status() : File(descriptor, parent).sync();
}

}  // namespace

DriveOptions Attach::drive_options(const std::string& path, const std::string& expected_id) const {
  DriveOptions options;
  options.path = path;
  options.node_id = core_.node_id;
  options.expected_id = expected_id;
  options.write_mode = core_.options.direct_io ? WriteMode::kDirect : WriteMode::kBuffered;
  options.reserve_bytes = core_.options.reserve_bytes;
  options.reads_in_flight = core_.options.reads_in_flight;
  options.index_cache = core_.index_cache;
  return options;
}

Status Attach::check_new(const DriveMap& map, const std::string& path) const {
  for (const auto& drive : map.drives) {
    if (is_same_place(drive->path(), path))
      return make_error(Code::kInvalid, "drive {} is the same directory as {}", path, drive->path());
    if (lies_inside(path, drive->path()) || lies_inside(drive->path(), path)) {
      return make_error(Code::kInvalid, "drives {} and {}: one lies inside the other", path, drive->path())
          .with_hint("a drive is a directory of its own");
    }
  }
  return {};
}

// Drives are known by what they are, not by where they were: two may have changed places.
void Attach::find_moved(const std::vector<std::string>& given) {
  std::map<std::string, std::string> places;
  const auto look = [&](const std::string& path) {
    const auto identity = find_drive_identity(path);
    if (identity && *identity) places.try_emplace((*identity)->id, path);
  };
  for (const KnownDrive& known : state_.drives) look(known.path);
  for (const std::string& path : given) look(path);
  for (KnownDrive& known : state_.drives) {
    const auto place = places.find(known.id);
    if (place == places.end() || place->second == known.path) continue;
    // Two of one identity: the one that was there stays, the other is refused later.
    const auto there = find_drive_identity(known.path);
    if (!there || !*there || (*there)->id != known.id) known.path = place->second;
  }
}

KnownDrive Attach::take_known(const std::string& path, const std::string& id) {
  KnownDrive known{path, id, DriveIntent::kServe};
  for (const KnownDrive& before : state_.drives) {
    if (before.id == id) known.intent = before.intent;
  }
  std::erase_if(state_.drives, [&](const auto& before) { return before.id == id; });
  state_.drives.push_back(known);
  return known;
}

void Attach::include(DriveMap& map, std::shared_ptr<Drive> drive) const {
  map.targets.push_back({drive->hash(), drive->weight()});
  map.committers.push_back(std::make_shared<Committer>(core_));
  map.drives.push_back(std::move(drive));
}

Status Attach::load_records(const std::shared_ptr<Drive>& drive) {
  core_.clock.observe(drive->clock_at_open());
  const auto rows = drive->index().iterate(Family::kBuckets, DriveIndex::Scan::kSome);
  for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
    auto record = decode_bucket(view(rows->value()));
    if (record) {
      core_.clock.observe(record->bucket.version);
      core_.buckets.learn(*record);
    } else {
      core_.log.warn("left out a bucket record that cannot be read", "drive", drive->path(), "why",
                     record.error().message());
    }
  }
  if (!rows->status().ok()) return make_index_error(rows->status(), drive->path());
  return Multipart::load(core_, drive);
}

void Attach::swap(std::shared_ptr<const DriveMap> map) {
  std::unique_lock lock(core_.topology);
  core_.set_map(std::move(map));
}

Status Attach::open_all() {
  const std::string& directory = core_.options.state_directory;
  MR_TRY(make_directories(directory));
  const int descriptor = ::open((directory + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return make_system_error(errno, "opening " + directory + "/lock");
  state_lock_ = File(descriptor, directory + "/lock");
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return make_error(Code::kUnavailable, "state directory {}: it is in use by another process", directory);
  }
  state_ = MR_TRY(load_node_state(directory));
  core_.node_id = state_.node_id;

  std::vector<std::string> given;
  for (const std::string& path : core_.options.drives) {
    for (const std::string& other : given) {
      if (absolute_path(path) == other || is_same_place(path, other))
        return make_error(Code::kInvalid, "drives {} and {} are the same directory", other, path);
    }
    given.push_back(absolute_path(path));
  }
  if (given.empty() && state_.drives.empty()) given.push_back(absolute_path(directory + "/drive"));
  find_moved(given);
  const std::vector<KnownDrive> before = state_.drives;

  auto map = std::make_shared<DriveMap>();
  for (const KnownDrive& known : before) {
    MR_TRY(check_new(*map, known.path));
    auto drive = Drive::open(drive_options(known.path, known.id));
    Status loaded = drive ? load_records(*drive) : Status(drive.error().copy());
    if (!loaded) {
      if (!is_of_the_drive(loaded.error())) return loaded;
      core_.log.warn("drive is missing", "path", known.path, "why", loaded.error().message());
      const std::string& hint = loaded.error().hint();
      map->missing.push_back(
          {known, loaded.error().message() + (hint.empty() ? "" : fmt::format(" ({})", hint))});
      continue;
    }
    if (known.intent == DriveIntent::kDrain) (*drive)->set_draining();
    include(*map, drive.take());
  }
  for (const std::string& path : given) {
    const bool is_known = std::ranges::any_of(
        before, [&](const auto& known) { return is_named(known, path) || is_same_place(known.path, path); });
    if (is_known) continue;
    MR_TRY(check_new(*map, path));
    auto drive = MR_TRY(Drive::open(drive_options(path, "")));
    const bool id_known =
        std::ranges::any_of(map->drives, [&](const auto& other) { return other->id() == drive->id(); });
    if (id_known) return make_error(Code::kInvalid, "drive {} is there twice", path);
    // A known drive that was mounted at another place.
    const KnownDrive known = take_known(path, drive->id());
    std::erase_if(map->missing, [&](const auto& missing) { return missing.known.id == drive->id(); });
    MR_TRY(load_records(drive));
    if (known.intent == DriveIntent::kDrain) drive->set_draining();
    include(*map, std::move(drive));
  }
  MR_TRY(save_node_state(directory, state_));
  // Buckets would be gone with the drives that know them: some may have been away when others were made.
  for (const auto& drive : map->drives) {
    Status saved = core_.save_buckets(*drive);
    if (!saved) core_.log.warn("cannot note the buckets", "why", drive->note(saved.take_error()).message());
  }
  if (map->drives.empty()) {
    std::string reasons;
    for (const MissingDrive& missing : map->missing)
      reasons += (reasons.empty() ? ": " : "; ") + missing.reason;
    return make_error(Code::kUnavailable, "not one drive can be served{}", reasons);
  }
  swap(std::move(map));
  return {};
}

Status Attach::add(const std::string& path) {
  const std::shared_ptr<const DriveMap> before = core_.map();
  if (const auto drive = before->find(path); drive != nullptr && drive->is_draining()) {
    // On second thoughts it stays.
    for (KnownDrive& known : state_.drives) {
      if (known.id == drive->id()) known.intent = DriveIntent::kServe;
    }
    MR_TRY(save_node_state(core_.options.state_directory, state_));
    drive->set_serving();
    return {};
  }
  MR_TRY(check_new(*before, path));
  const auto known = std::ranges::find(state_.drives, path, &KnownDrive::path);
  const bool is_known = known != state_.drives.end();
  auto drive = MR_TRY(Drive::open(drive_options(path, is_known ? known->id : "")));
  for (const auto& other : before->drives) {
    if (other->id() == drive->id())
      return make_error(Code::kInvalid, "drive {} is there already: {}", path, other->path());
  }
  if (take_known(path, drive->id()).intent == DriveIntent::kDrain) drive->set_draining();
  MR_TRY(save_node_state(core_.options.state_directory, state_));
  MR_TRY(load_records(drive));
  MR_TRY(core_.save_buckets(*drive));
  auto after = std::make_shared<DriveMap>(*before);
  std::erase_if(after->missing, [&](const auto& missing) { return missing.known.id == drive->id(); });
  include(*after, std::move(drive));
  swap(std::move(after));
  // It may hold newer versions of what is in memory.
  core_.cache.clear();
  return {};
}

Status Attach::drain(const std::string& path) {
  const auto drive = core_.map()->find(path);
  if (drive == nullptr) return make_error(Code::kNotFound, "there is no drive {}", path);
  drive->drain_left = std::max<uint64_t>(drive->status().objects, 1);  // until the mover has counted
  for (KnownDrive& known : state_.drives) {
    if (known.id == drive->id()) known.intent = DriveIntent::kDrain;
  }
  MR_TRY(save_node_state(core_.options.state_directory, state_));
  drive->set_draining();
  return {};
}

Status Attach::remove(const std::string& path) {
  // No commit runs meanwhile, and those that follow find the drive gone.
  std::unique_lock topology(core_.topology);
  const std::shared_ptr<const DriveMap> before = core_.map();
  const auto drive = before->find(path);
  auto after = std::make_shared<DriveMap>();
  after->missing = before->missing;
  if (drive == nullptr) {
    if (std::ranges::none_of(before->missing,
                             [&](const auto& missing) { return is_named(missing.known, path); })) {
      return make_error(Code::kNotFound, "there is no drive {}", path);
    }
    // Given up for lost, on request.
    std::erase_if(after->missing, [&](const auto& missing) { return is_named(missing.known, path); });
    after->drives = before->drives;
    after->targets = before->targets;
    after->committers = before->committers;
  } else {
    if (drive->takes_writes()) {
      return make_error(Code::kExists, "drive {} serves: drain it first", path);
    }
    if (before->drives.size() == 1) return make_error(Code::kInvalid, "drive {} is the only one", path);
    for (const auto family : {Family::kObjects, Family::kUploads}) {
      const auto rows = drive->index().iterate(family, DriveIndex::Scan::kSome);
      rows->SeekToFirst();
      if (!rows->status().ok()) return make_index_error(rows->status(), drive->path());
      if (rows->Valid()) {
        return make_error(Code::kExists, "drive {} still holds {}", path,
                          family == Family::kObjects ? "objects" : "uploads under way");
      }
    }
    for (size_t i = 0; i < before->drives.size(); ++i) {
      if (before->drives[i] == drive) continue;
      after->drives.push_back(before->drives[i]);
      after->targets.push_back(before->targets[i]);
      after->committers.push_back(before->committers[i]);
    }
  }
  std::erase_if(state_.drives, [&](const KnownDrive& known) {
    return drive != nullptr ? known.id == drive->id() : is_named(known, path);
  });
  MR_TRY(save_node_state(core_.options.state_directory, state_));
  core_.set_map(std::move(after));
  topology.unlock();
  if (drive != nullptr) {
    for (size_t i = 0; i < before->drives.size(); ++i) {
      if (before->drives[i] == drive) before->committers[i]->stop();
    }
    core_.cache.clear();
    core_.retire(drive);
  }
  return {};
}

std::vector<DriveStatus> Attach::status() const {
  const std::shared_ptr<const DriveMap> map = core_.map();
  std::vector<DriveStatus> drives;
  for (const auto& drive : map->drives) drives.push_back(drive->status());
  for (const MissingDrive& missing : map->missing) {
    DriveStatus status;
    status.path = missing.known.path;
    status.id = missing.known.id;
    status.state = DriveState::kMissing;
    status.reason = missing.reason;
    drives.push_back(std::move(status));
  }
  return drives;
}

void Attach::close() {
  const std::shared_ptr<const DriveMap> map = core_.map();
  // First what still writes files, then the commits they lead to.
  for (const auto& drive : map->drives) {
    drive->blocks().stop();
    drive->finishers().stop();
  }
  for (const auto& committer : map->committers) committer->stop();
  core_.cache.clear();
  for (const auto& drive : map->drives) drive->close();
}

}  // namespace millrace::store
