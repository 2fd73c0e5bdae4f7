// Opens the drives of the node's list and of the options, adds, drains and removes them.
#include "store/attach.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/mutex.h"
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

// Drives are known by what they are, not by where they were: two may have changed places.
void find_moved(std::vector<KnownDrive>& drives, const std::vector<std::string>& given) {
  std::map<std::string, std::string> places;
  const auto look = [&](const std::string& path) {
    const auto identity = find_drive_identity(path);
    if (identity && *identity) places.try_emplace((*identity)->id, path);
  };
  for (const KnownDrive& known : drives) look(known.path);
  for (const std::string& path : given) look(path);
  for (KnownDrive& known : drives) {
    const auto place = places.find(known.id);
    if (place == places.end() || place->second == known.path) continue;
    // Two of one identity: the one that was there stays, the other is refused later.
    const auto there = find_drive_identity(known.path);
    if (!there || !*there || (*there)->id != known.id) known.path = place->second;
  }
}

// Noted as being there, with what was known of it.
KnownDrive take_known(NodeState& state, const std::string& path, const std::string& id) {
  KnownDrive known;
  for (const KnownDrive& before : state.drives) {
    if (before.id == id) known = before;
  }
  known.path = path;
  known.id = id;
  std::erase_if(state.drives, [&](const auto& before) { return before.id == id; });
  // Given up for lost, and found again: others were given newer versions meanwhile.
  if (std::erase(state.removed, id) > 0) known.behind = true;
  state.drives.push_back(known);
  return known;
}

// What lies on the drive, in words; empty: nothing.
Result<std::string_view> find_held(Drive& drive) {
  using namespace std::string_view_literals;
  for (const auto& [family, what] :
       {std::pair(Family::kObjects, "objects"sv), std::pair(Family::kUploads, "uploads under way"sv),
        std::pair(Family::kLedgers, "small objects of the cluster, or what it knows of its keys"sv)}) {
    const auto rows = drive.index().iterate(family, DriveIndex::Scan::kSome);
    rows->SeekToFirst();
    if (!rows->status().ok()) return make_index_error(rows->status(), drive.path());
    if (rows->Valid()) return what;
  }
  return std::string_view();
}

}  // namespace

DriveOptions Attach::drive_options(const std::string& path, const std::string& expected_id) const {
  DriveOptions options;
  options.path = path;
  options.node_id = core_.node_id;
  options.expected_id = expected_id;
  options.may_adopt = core_.options.may_adopt;
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

void Attach::include(DriveMap& map, std::shared_ptr<Drive> drive, const KnownDrive& known) const {
  if (known.intent == DriveIntent::kDrain) drive->set_draining();
  if (known.behind) drive->set_behind();
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

void Attach::swap(std::shared_ptr<DriveMap> map) {
  const WriteLock lock(core_.topology);
  core_.set_map(std::move(map));
}

Status Attach::lock_state() {
  const std::string& directory = core_.options.state_directory;
  MR_TRY(make_directories(directory));
  state_lock_ = MR_TRY(FileLock::try_take(directory + "/lock").within("state directory " + directory));
  return {};
}

Result<std::vector<std::string>> Attach::given_drives() const {
  std::vector<std::string> given;
  for (const std::string& path : core_.options.drives) {
    for (const std::string& other : given) {
      if (absolute_path(path) == other || is_same_place(path, other))
        return make_error(Code::kInvalid, "drives {} and {} are the same directory", other, path);
    }
    given.push_back(absolute_path(path));
  }
  return given;
}

Status Attach::open_known(DriveMap& map, KnownDrive& known) {
  MR_TRY(check_new(map, known.path));
  auto drive = Drive::open(drive_options(known.path, known.id));
  Status loaded = drive ? load_records(*drive) : Status(drive.error().copy());
  if (loaded) {
    include(map, drive.take(), known);
    return {};
  }
  if (!is_of_the_drive(loaded.error())) return loaded;
  core_.log.warn("drive is missing", "path", known.path, "why", loaded.error().message());
  const std::string& hint = loaded.error().hint();
  // From now on others may be given newer versions of what it holds.
  known.behind = true;
  map.missing.push_back({known, loaded.error().message() + (hint.empty() ? "" : fmt::format(" ({})", hint))});
  return {};
}

bool Attach::is_adoptable(const std::string& path) const {
  const auto identity = find_drive_identity(path);
  return identity && *identity && (*identity)->node != core_.node_id && core_.options.may_adopt &&
         core_.options.may_adopt((*identity)->id);
}

Status Attach::open_given(DriveMap& map, NodeState& state, const std::string& path) {
  const auto identity = find_drive_identity(path);
  if (identity && *identity && (*identity)->node == core_.node_id &&
      std::ranges::find(state.removed, (*identity)->id) != state.removed.end()) {
    core_.log.warn("a drive that was removed is still among the settings, and is not served", "path", path,
                   "next", "take it out of the settings, or: millrace drives add " + path);
    return {};
  }
  MR_TRY(check_new(map, path));
  auto drive = MR_TRY(Drive::open(drive_options(path, "")));
  const bool id_known =
      std::ranges::any_of(map.drives, [&](const auto& other) { return other->id() == drive->id(); });
  if (id_known) return make_error(Code::kInvalid, "drive {} is there twice", path);
  // A known drive that was mounted at another place.
  const KnownDrive known = take_known(state, path, drive->id());
  std::erase_if(map.missing, [&](const auto& missing) { return missing.known.id == drive->id(); });
  MR_TRY(load_records(drive));
  include(map, std::move(drive), known);
  return {};
}

Status Attach::open_all() {
  const std::string& directory = core_.options.state_directory;
  MR_TRY(lock_state());
  MR_TRY(core_.known.load(directory));
  NodeState state = core_.known.state();
  core_.node_id = state.node_id;
  std::vector<std::string> given = MR_TRY(given_drives());
  if (given.empty() && state.drives.empty()) given.push_back(absolute_path(directory + "/drive"));
  find_moved(state.drives, given);
  const std::vector<KnownDrive> before = state.drives;

  auto map = std::make_shared<DriveMap>();
  for (KnownDrive& known : state.drives) MR_TRY(open_known(*map, known));
  for (const KnownDrive& known : before) {
    // A drive of another node is in the place of this one's.
    if (is_adoptable(known.path)) MR_TRY(open_given(*map, state, known.path));
  }
  for (const std::string& path : given) {
    const bool is_known = std::ranges::any_of(
        before, [&](const auto& known) { return is_named(known, path) || is_same_place(known.path, path); });
    if (!is_known) MR_TRY(open_given(*map, state, path));
  }
  MR_TRY(core_.known.change([&](NodeState& saved) { saved = state; }));
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
  for (const auto& drive : map->drives) warn_of_shared_device(*map, *drive);
  swap(std::move(map));
  return {};
}

void Attach::warn_of_shared_device(const DriveMap& map, const Drive& drive) const {
  for (const auto& other : map.drives) {
    if (other.get() == &drive) return;
    if (other->device() != drive.device()) continue;
    core_.log.warn("two drives share a file system: they fill and fail together", "path", drive.path(),
                   "other", other->path());
    return;
  }
}

Status Attach::add(const std::string& path, GivenUp given_up) {
  const std::shared_ptr<const DriveMap> before = core_.map();
  if (const auto drive = before->find(path); drive != nullptr && drive->is_draining()) {
    // On second thoughts it stays.
    MR_TRY(set_intent(*drive, DriveIntent::kServe));
    drive->set_serving();
    return {};
  }
  MR_TRY(check_new(*before, path));
  const std::vector<KnownDrive> drives = core_.known.state().drives;
  const auto by_path = std::ranges::find(drives, path, &KnownDrive::path);
  const bool expected = by_path != drives.end() && !is_adoptable(path);
  auto drive = MR_TRY(Drive::open(drive_options(path, expected ? by_path->id : "")));
  for (const auto& other : before->drives) {
    if (other->id() == drive->id())
      return make_error(Code::kInvalid, "drive {} is there already: {}", path, other->path());
  }
  if (given_up == GivenUp::kRefuse) MR_TRY(check_given_up(*drive));
  KnownDrive known;
  MR_TRY(core_.known.change([&](NodeState& state) { known = take_known(state, path, drive->id()); }));
  MR_TRY(load_records(drive));
  MR_TRY(core_.save_buckets(*drive));
  auto after = std::make_shared<DriveMap>(*before);
  std::erase_if(after->missing, [&](const auto& missing) { return missing.known.id == drive->id(); });
  include(*after, std::move(drive), known);
  warn_of_shared_device(*after, *after->drives.back());
  swap(std::move(after));
  // It may hold newer versions of what is in memory.
  core_.cache.clear();
  return {};
}

Status Attach::set_intent(const Drive& drive, DriveIntent intent) {
  return core_.known.change([&](NodeState& state) {
    for (KnownDrive& known : state.drives) {
      if (known.id == drive.id()) known.intent = intent;
    }
  });
}

Status Attach::drain(const std::string& path) {
  const std::shared_ptr<const DriveMap> map = core_.map();
  const auto drive = map->find(path);
  if (drive == nullptr) return make_error(Code::kNotFound, "there is no drive {}", path);
  const bool has_other = std::ranges::any_of(map->drives, [&](const auto& other) {
    return other != drive && !other->is_draining() && other->state() != DriveState::kFailed;
  });
  if (!has_other) {
    return make_error(Code::kInvalid, "drive {} is the last that takes objects: there is no other to move to",
                      path)
        .with_hint("add a drive first: millrace drives add DIR");
  }
  drive->drain_left = std::max<uint64_t>(drive->status().objects, 1);  // until the mover has counted
  MR_TRY(set_intent(*drive, DriveIntent::kDrain));
  drive->set_draining();
  return {};
}

Status Attach::check_empty(const DriveMap& map, Drive& drive) {
  if (drive.takes_writes()) {
    return make_error(Code::kExists, "drive {} serves: drain it first", drive.path());
  }
  if (map.drives.size() == 1) return make_error(Code::kInvalid, "drive {} is the only one", drive.path());
  const std::string_view held = MR_TRY(find_held(drive));
  if (held.empty()) return {};
  return make_error(Code::kExists, "drive {} still holds {}", drive.path(), held)
      .with_hint("wait until millrace drives list says that nothing is left to move");
}

Status Attach::check_given_up(Drive& drive) const {
  const std::vector<std::string> removed = core_.known.state().removed;
  if (std::ranges::find(removed, drive.id()) == removed.end()) return {};
  const std::string_view held = MR_TRY(find_held(drive));
  if (held.empty()) return {};
  return make_error(
             Code::kExists,
             "drive {} was given up for lost, and still holds {}: what was deleted since may come back",
             drive.path(), held)
      .with_hint("millrace drives add --take-back takes all of it back; or empty the directory first");
}

Status Attach::remove(const std::string& path) {
  std::shared_ptr<const DriveMap> before;
  std::shared_ptr<Drive> drive;
  {
    // No commit runs meanwhile, and those that follow find the drive gone.
    const WriteLock topology(core_.topology);
    before = core_.map();
    drive = before->find(path);
    const auto is_it = [&](const KnownDrive& known) {
      return drive != nullptr ? known.id == drive->id() : is_named(known, path);
    };
    auto after = std::make_shared<DriveMap>(*before);
    if (drive != nullptr) {
      MR_TRY(check_empty(*before, *drive));
      const auto at = std::ranges::find(before->drives, drive) - before->drives.begin();
      after->drives.erase(after->drives.begin() + at);
      after->targets.erase(after->targets.begin() + at);
      after->committers.erase(after->committers.begin() + at);
    } else if (std::erase_if(after->missing, [&](const auto& missing) { return is_it(missing.known); }) ==
               0) {
      return make_error(Code::kNotFound, "there is no drive {}", path);
    }
    MR_TRY(core_.known.change([&](NodeState& state) {
      for (const KnownDrive& known : state.drives) {
        if (is_it(known)) state.removed.push_back(known.id);
      }
      std::erase_if(state.drives, is_it);
    }));
    core_.set_map(std::move(after));
  }
  if (drive != nullptr) {
    for (size_t i = 0; i < before->drives.size(); ++i) {
      if (before->drives[i] == drive) before->committers[i]->stop();
    }
    core_.cache.clear();
    core_.retire(drive);
  }
  return {};
}

Status Attach::forget(const std::string& id) {
  const WriteLock topology(core_.topology);
  auto after = std::make_shared<DriveMap>(*core_.map());
  if (std::erase_if(after->missing, [&](const auto& missing) { return missing.known.id == id; }) == 0)
    return make_error(Code::kNotFound, "no drive {} is missing", id);
  MR_TRY(core_.known.change([&](NodeState& state) {
    std::erase_if(state.drives, [&](const auto& known) { return known.id == id; });
  }));
  core_.set_map(std::move(after));
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
