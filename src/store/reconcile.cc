// Comparing the records of one drive with those of the others.
#include "store/reconcile.h"

#include <algorithm>

#include "store/commit.h"

namespace millrace::store {

namespace {

constexpr size_t kPageKeys = 1000;

// The next keys of a family behind `last`, in pages: no iterator holds old tables while they are compared.
Result<std::vector<std::string>> next_keys(const Drive& drive, Family family, const std::string& prefix,
                                           const std::string& last) {
  std::vector<std::string> keys;
  const auto rows = drive.index().iterate(family, DriveIndex::Scan::kSome);
  for (rows->Seek(last.empty() ? prefix : last + '\0'); rows->Valid() && keys.size() < kPageKeys;
       rows->Next()) {
    if (!rows->key().starts_with(prefix)) break;
    keys.push_back(rows->key().ToString());
  }
  if (!rows->status().ok()) return make_index_error(rows->status(), drive.path());
  return keys;
}

Result<bool> is_elsewhere(const DriveMap& map, const Drive& drive, const std::string& encoded) {
  for (const auto& other : map.drives) {
    if (other.get() == &drive) continue;
    if (MR_TRY(other->index().find(Family::kObjects, encoded))) return true;
  }
  return false;
}

// How many keys had an older record here; nothing where it was cut short.
Result<std::optional<uint64_t>> reconcile(Core& core, const DriveMap& map, const Drive& drive,
                                          const std::function<bool()>& go_on) {
  uint64_t tidied = 0;
  std::string last;
  while (true) {
    const std::vector<std::string> keys = MR_TRY(next_keys(drive, Family::kObjects, "", last));
    if (keys.empty()) return std::optional<uint64_t>(tidied);
    for (const std::string& encoded : keys) {
      if (!go_on()) return std::optional<uint64_t>();
      if (!MR_TRY(is_elsewhere(map, drive, encoded))) continue;
      MR_TRY(tidy_key(core, encoded));
      ++tidied;
    }
    last = keys.back();
  }
}

}  // namespace

Status tidy_key(Core& core, std::string_view encoded) {
  const auto [bucket, key] = split_object_key(encoded);
  Change change;
  change.kind = Change::Kind::kTidy;
  change.bucket = bucket;
  change.key = key;
  MR_TRY(core.commit(std::move(change)));
  return {};
}

bool is_complete(const DriveMap& map) {
  return map.missing.empty() && std::ranges::none_of(map.drives, [](const auto& drive) {
           return drive->state() == DriveState::kFailed;
         });
}

void reconcile_drives(Core& core, const std::function<bool()>& go_on) {
  const std::shared_ptr<const DriveMap> map = core.map();
  for (const auto& drive : map->drives) {
    const uint64_t seen = drive->behind();
    if (seen == 0 || !is_complete(*map)) continue;
    const auto tidied = reconcile(core, *map, *drive, go_on);
    if (!tidied) {
      core.log.warn("cannot compare a drive with the others", "drive", drive->path(), "why",
                    tidied.error().message());
      continue;
    }
    // What failed meanwhile may have missed, or hold, what was compared.
    if (!*tidied || !is_complete(*map) || core.map() != map) return;
    // Together under the list's lock: a commit that is missed meanwhile is counted first and noted after.
    const Status saved = core.known.change([&](NodeState& state) {
      if (!drive->set_caught_up(seen)) return;
      for (KnownDrive& known : state.drives) {
        if (known.id == drive->id()) known.behind = false;
      }
    });
    if (saved && !drive->is_behind()) {
      core.log.info("a drive that missed commits is up to date again", "drive", drive->path(),
                    "older_records", **tidied);
    }
  }
}

void forget_marks(Core& core, const std::function<bool()>& go_on) {
  const std::shared_ptr<const DriveMap> map = core.map();
  for (const auto& drive : map->drives) {
    for (const std::string_view prefix : {kMetaTombstone, kMetaSuperseded}) {
      if (!is_complete(*map)) return;
      const auto keys = next_keys(*drive, Family::kMeta, std::string(prefix), "");
      if (!keys) return;
      for (const std::string& mark : *keys) {
        if (!go_on() || !tidy_key(core, std::string_view(mark).substr(prefix.size()))) return;
      }
    }
  }
}

}  // namespace millrace::store
