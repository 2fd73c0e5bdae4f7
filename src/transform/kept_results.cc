// Files, and an index of them in memory.
#include "transform/kept_results.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

namespace millrace::transform {

namespace {

namespace fs = std::filesystem;
constexpr std::string_view kEnding = ".result";

}  // namespace

Result<std::unique_ptr<KeptResults>> KeptResults::open(KeptOptions options) {
  std::unique_ptr<KeptResults> results(new KeptResults(std::move(options)));
  if (results->options_.most_bytes == 0) return results;
  MR_TRY(results->look_around());
  results->evicting_.start(std::chrono::seconds(1), [kept = results.get()] { kept->make_room(); });
  return results;
}

KeptResults::~KeptResults() {
  evicting_.stop();
}

Status KeptResults::look_around() {
  std::error_code failure;
  fs::create_directories(options_.directory, failure);
  if (failure) return make_error(Code::kIo, "making {}: {}", options_.directory, failure.message());
  fs::permissions(options_.directory, fs::perms::owner_all, failure);
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  for (fs::directory_iterator entry(options_.directory, failure);
       !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const std::string file = entry->path().filename().string();
    std::error_code gone;
    if (!file.ends_with(kEnding)) {
      fs::remove(entry->path(), gone);  // of a run that was cut short
      continue;
    }
    found.emplace_back(entry->last_write_time(gone), file.substr(0, file.size() - kEnding.size()));
  }
  if (failure) return make_error(Code::kIo, "reading {}: {}", options_.directory, failure.message());
  std::ranges::sort(found);
  for (const auto& [time, name] : found) add(name, fs::file_size(path(name), failure));
  return {};
}

std::optional<KeptResults::Found> KeptResults::find(const std::string& name) {
  {
    const MutexLock lock(mutex_);
    const auto known = results_.find(name);
    if (known == results_.end()) return std::nullopt;
    known->second.used = ++uses_;
    ++hits_;
  }
  auto file = File::open_read(path(name));
  if (!file) return std::nullopt;  // evicted just now
  const auto size = file->size();
  if (!size) return std::nullopt;
  // Whoever sends it is not to wait for the drive.
  static_cast<void>(::posix_fadvise(file->descriptor(), 0, 0, POSIX_FADV_WILLNEED));
  return Found{std::make_shared<const File>(file.take()), *size};
}

std::unique_ptr<KeptResults::Writer> KeptResults::begin(const std::string& name) {
  if (options_.most_bytes == 0 || !has_room()) return nullptr;
  {
    const MutexLock lock(mutex_);
    if (results_.contains(name) || !under_way_.insert(name).second) return nullptr;
  }
  auto file = AtomicFile::create(path(name));
  if (file) return std::unique_ptr<Writer>(new Writer(*this, name, file.take()));
  const MutexLock lock(mutex_);
  under_way_.erase(name);
  return nullptr;
}

Status KeptResults::Writer::write(std::string_view bytes) {
  bytes_ += bytes.size();
  is_broken_ = is_broken_ || bytes_ > results_.options_.most_bytes;
  if (is_broken_) return make_error(Code::kNoSpace, "the result is not kept");
  Status written = file_.file().write_all(bytes);
  is_broken_ = !written;
  return written;
}

void KeptResults::Writer::commit() {
  if (is_broken_ || !file_.finish()) return;
  results_.add(name_, bytes_);
  results_.make_room();
}

KeptResults::Writer::~Writer() {
  const MutexLock lock(results_.mutex_);
  results_.under_way_.erase(name_);
}

void KeptResults::add(const std::string& name, uint64_t size) {
  const MutexLock lock(mutex_);
  results_[name] = {size, ++uses_};
  bytes_ += size;
}

// A file system that does not answer keeps nothing.
bool KeptResults::has_room() const {
  struct statvfs drive{};
  if (::statvfs(options_.directory.c_str(), &drive) != 0 || drive.f_blocks == 0) return false;
  const uint64_t used = drive.f_blocks - drive.f_bavail;
  return used * 100 < uint64_t{drive.f_blocks} * options_.fill_percent;
}

void KeptResults::make_room() {
  const MutexLock lock(mutex_);
  while (bytes_ > options_.most_bytes && !results_.empty()) evict_oldest();
  while (!results_.empty() && !has_room()) evict_oldest();
}

void KeptResults::evict_oldest() {
  const auto oldest =
      std::ranges::min_element(results_, {}, [](const auto& entry) { return entry.second.used; });
  ::unlink(path(oldest->first).c_str());
  bytes_ -= oldest->second.size;
  results_.erase(oldest);
  ++evicted_;
}

KeptResults::Reading KeptResults::read() const {
  const MutexLock lock(mutex_);
  return {results_.size(), bytes_, hits_, evicted_};
}

}  // namespace millrace::transform
