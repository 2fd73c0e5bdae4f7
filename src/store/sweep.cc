// Comparing data/ with the index.
#include "store/sweep.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <unordered_set>

#include "base/fault.h"
#include "base/number.h"

namespace millrace::store {

std::optional<uint64_t> parse_file_name(std::string_view name) {
  return name.size() == 16 ? parse_number<uint64_t>(name, 16) : std::nullopt;
}

namespace {

Status remove_unknown(Drive& drive, uint64_t file, const std::string& path, SweepReport& report) {
  // Asked before the index: what is settled is in the index, if it was committed.
  if (drive.keeper().is_busy(file)) return {};
  const auto owner = MR_TRY(drive.index().find(Family::kFiles, file_key(file)));
  if (owner) return {};
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return {};
  MR_FAULT("sweep.unlink");
  if (::unlink(path.c_str()) != 0) return make_system_error(errno, "removing " + path);
  ++report.removed;
  report.removed_bytes += static_cast<uint64_t>(facts.st_size);
  return {};
}

}  // namespace

Result<SweepReport> sweep_drive(Core& core, Drive& drive, const std::function<bool()>& go_on) {
  SweepReport report;
  std::unordered_set<uint64_t> there;
  for (unsigned directory = 0; directory < Drive::kDirectories; ++directory) {
    std::error_code error;
    std::filesystem::directory_iterator entries(fmt::format("{}/data/{:02x}", drive.path(), directory),
                                                error);
    if (error)
      return make_error(Code::kIo, "drive {}: data/{:02x}: {}", drive.path(), directory, error.message());
    for (const auto& entry : entries) {
      if (!go_on()) return report;
      const auto file = parse_file_name(entry.path().filename().string());
      if (!file) continue;
      ++report.files;
      there.insert(*file);
      MR_TRY(remove_unknown(drive, *file, entry.path().string(), report));
    }
  }
  const auto rows = drive.index().iterate(Family::kFiles, DriveIndex::Scan::kAll);
  for (rows->SeekToFirst(); rows->Valid() && go_on(); rows->Next()) {
    const auto file = parse_file_key(view(rows->key()));
    if (!file || there.contains(*file)) continue;
    // The iterator sees an old state: what was deleted meanwhile is not missing.
    const auto still = MR_TRY(drive.index().find(Family::kFiles, view(rows->key())));
    if (!still || ::access(drive.file_path(*file).c_str(), F_OK) == 0) continue;
    ++report.missing;
    auto owner = decode_owner(*still);
    const std::string what = "file " + drive.file_path(*file) + " is missing";
    core.report({owner ? owner->bucket : "", owner ? owner->key : "", drive.path(), 0, what});
  }
  return report;
}

}  // namespace millrace::store
