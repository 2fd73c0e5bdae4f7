// Entries and leases as files of one directory, and watches by inotify.
#include "cluster/files_registry.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "base/assert.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/number.h"
#include "base/text.h"

namespace millrace::cluster {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::string_view kFormat = "millrace registry 1\n";
constexpr uint64_t kMostSmallFile = 4096;
constexpr uint64_t kMostHeadBytes = 64;
// How late a watch may notice that a lease has ended, and anything at all where inotify is missing.
constexpr milliseconds kLookEvery{200};

nanoseconds boot_time() {
  return std::chrono::microseconds(boot_us());
}

// The next word of a line that was written here.
std::string_view take_word(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

Result<std::vector<std::string>> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator file(directory, failed), end; !failed && file != end;
       file.increment(failed))
    names.push_back(file->path().filename().string());
  if (failed) return make_system_error(failed.value(), "listing " + directory);
  return names;
}

}  // namespace

Result<std::unique_ptr<FilesRegistry>> FilesRegistry::open(const std::string& directory) {
  if (directory.empty()) return make_error(Code::kInvalid, "the directory of the registry has no name");
  const std::string boot_id = MR_TRY(read_file("/proc/sys/kernel/random/boot_id", kMostSmallFile));
  std::unique_ptr<FilesRegistry> registry(new FilesRegistry(directory, std::string(trim(boot_id, " \t\n"))));
  MR_TRY(registry->prepare().within("opening the registry " + directory));
  return registry;
}

Status FilesRegistry::prepare() {
  namespace fs = std::filesystem;
  std::error_code failed;
  for (const char* folder : {"", "/entries", "/leases"}) {
    if (fs::create_directories(directory_ + folder, failed))
      // The cluster's secret is in here.
      fs::permissions(directory_ + folder, fs::perms::owner_all, failed);
    if (failed) return make_system_error(failed.value(), "making " + directory_ + folder);
  }
  const Turn turn = MR_TRY(take_lock());
  MR_TRY(give_to_owner_of(turn.lock(), directory_));
  const std::string format_path = directory_ + "/format";
  if (!file_exists(format_path)) MR_TRY(turn.put(format_path, kFormat));
  const std::string format = MR_TRY(read_file(format_path, kMostSmallFile));
  if (format != kFormat)
    return make_error(Code::kUnsupported, "its format is {}", printable(trim(format, "\n"), 80))
        .with_hint("was it written by a newer version?");
  // What a killed process left half written; under the lock nobody is writing.
  for (const char* folder : {"", "/entries", "/leases"}) {
    for (const std::string& name : MR_TRY(names_in(directory_ + folder))) {
      if (name.ends_with(".part")) MR_TRY(remove_file_if_present(directory_ + folder + "/" + name));
    }
  }
  return {};
}

Result<Turn> FilesRegistry::take_lock() const {
  auto turn = Turn::take(directory_);
  if (turn || turn.error().code() != Code::kNotFound) return turn;
  // Whoever asks must not take a registry that is gone for a missing object.
  return make_error(Code::kUnavailable, "the registry is gone: {}", turn.error().message())
      .with_hint(fmt::format("bring the directory {} back", directory_));
}

Result<Turn> FilesRegistry::take_turn() {
  Turn turn = MR_TRY(take_lock());
  const std::vector<LeaseId> overdue = MR_TRY(overdue_leases());
  if (!overdue.empty()) MR_TRY(end_leases(turn, overdue));
  return turn;
}

Result<uint64_t> FilesRegistry::read_revision() const {
  const std::string path = directory_ + "/revision";
  const auto text = read_file(path, kMostSmallFile);
  if (!text && text.error().code() == Code::kNotFound) return uint64_t{0};
  if (!text) return text.error().copy();
  const auto revision = parse_number<uint64_t>(trim(*text, "\n"));
  if (!revision) return make_error(Code::kCorrupt, "{} holds no number", path);
  return *revision;
}

Result<uint64_t> FilesRegistry::raise_revision(const Turn& turn) {
  const uint64_t revision = MR_TRY(read_revision()) + 1;
  // Before the change: a revision may be given to nothing, but never to two changes.
  MR_TRY(turn.put(directory_ + "/revision", fmt::format("{}\n", revision)));
  MR_FAULT("registry.revision");
  return revision;
}

std::string FilesRegistry::entry_path(const std::string& name) const {
  // "=" cannot be in a name: no name is "..", and none looks like a file that is half written.
  std::string file = name + "=";
  std::ranges::replace(file, '/', '%');
  return directory_ + "/entries/" + file;
}

std::string FilesRegistry::lease_path(LeaseId lease) const {
  return fmt::format("{}/leases/{}", directory_, static_cast<uint64_t>(lease));
}

Result<std::optional<FilesRegistry::Stored>> FilesRegistry::find_stored(const std::string& name) const {
  const std::string path = entry_path(name);
  auto text = read_file(path, kMostValueBytes + kMostHeadBytes);
  if (!text && text.error().code() == Code::kNotFound) return std::optional<Stored>();
  if (!text) return text.take_error();
  const size_t end = text->find('\n');
  std::string_view head(text->data(), std::min(end, text->size()));
  const auto revision = parse_number<uint64_t>(take_word(head));
  const auto lease = parse_number<uint64_t>(take_word(head));
  if (end == std::string::npos || !revision || !lease || *revision == 0)
    return make_error(Code::kCorrupt, "{} does not begin with a revision and a lease", path);
  return std::optional<Stored>(Stored{*revision, LeaseId{*lease}, text->substr(end + 1)});
}

Result<std::vector<std::string>> FilesRegistry::entry_names() const {
  std::vector<std::string> names = MR_TRY(names_in(directory_ + "/entries"));
  std::erase_if(names, [](const std::string& file) { return !file.ends_with('='); });
  for (std::string& name : names) {
    name.pop_back();
    std::ranges::replace(name, '%', '/');
  }
  std::ranges::sort(names);
  return names;
}

Result<std::optional<nanoseconds>> FilesRegistry::find_lease(LeaseId lease) const {
  const auto text = read_file(lease_path(lease), kMostSmallFile);
  if (!text && text.error().code() == Code::kNotFound) return std::optional<nanoseconds>();
  if (!text) return text.error().copy();
  // A text that says nothing is what a power loss left: the lease is over then too.
  std::string_view line = trim(*text, "\n");
  const std::string_view boot = take_word(line);
  const auto end = parse_number<int64_t>(take_word(line));
  const auto ttl = parse_number<int64_t>(take_word(line));
  if (boot != boot_id_ || !end || !ttl || nanoseconds(*end) <= boot_time())
    return std::optional<nanoseconds>();
  return std::optional<nanoseconds>(*ttl);
}

Result<std::vector<LeaseId>> FilesRegistry::overdue_leases() const {
  std::vector<LeaseId> overdue;
  for (const std::string& name : MR_TRY(names_in(directory_ + "/leases"))) {
    const auto number = parse_number<uint64_t>(name);
    if (number && !MR_TRY(find_lease(LeaseId{*number}))) overdue.push_back(LeaseId{*number});
  }
  return overdue;
}

std::string FilesRegistry::lease_text(nanoseconds ttl) const {
  // Of one length always, so that a renewal overwrites in place.
  return fmt::format("{} {:020} {:020}\n", boot_id_, (boot_time() + ttl).count(), ttl.count());
}

Status FilesRegistry::end_leases(const Turn& turn, const std::vector<LeaseId>& ended) {
  MR_TRY(raise_revision(turn));
  for (const std::string& name : MR_TRY(entry_names())) {
    const auto stored = MR_TRY(find_stored(name));
    if (stored && std::ranges::count(ended, stored->lease) > 0) MR_TRY(turn.remove(entry_path(name)));
  }
  MR_FAULT("registry.entries_of_lease_gone");
  // Last: until then whoever comes next does all of it again.
  for (const LeaseId lease : ended) MR_TRY(turn.remove(lease_path(lease)));
  return {};
}

Result<std::optional<Entry>> FilesRegistry::get(const std::string& name) {
  MR_TRY(check_name(name));
  const Turn turn = MR_TRY(take_turn());
  auto stored = MR_TRY(find_stored(name));
  if (!stored) return std::optional<Entry>();
  return std::optional<Entry>(Entry{name, std::move(stored->value), stored->revision});
}

Result<std::vector<Entry>> FilesRegistry::list(const std::string& prefix) {
  MR_TRY(check_prefix(prefix));
  const Turn turn = MR_TRY(take_turn());
  std::vector<Entry> entries;
  for (const std::string& name : MR_TRY(entry_names())) {
    if (!name.starts_with(prefix)) continue;
    auto stored = MR_TRY(find_stored(name));
    if (stored) entries.push_back({name, std::move(stored->value), stored->revision});
  }
  return entries;
}

Result<std::optional<uint64_t>> FilesRegistry::swap(const std::string& name, uint64_t expected,
                                                    const std::string& value, LeaseId lease) {
  MR_TRY(check_name(name));
  MR_TRY(check_value(name, value));
  const Turn turn = MR_TRY(take_turn());
  const auto stored = MR_TRY(find_stored(name));
  if ((stored ? stored->revision : 0) != expected) return std::optional<uint64_t>();
  if (lease != LeaseId::kNone && !MR_TRY(find_lease(lease)))
    return make_error(kLeaseEnded, "writing {}: its lease has ended", name);
  const uint64_t revision = MR_TRY(raise_revision(turn));
  MR_TRY(turn.put(entry_path(name), fmt::format("{} {}\n{}", revision, static_cast<uint64_t>(lease), value)));
  MR_FAULT("registry.entry");
  return std::optional<uint64_t>(revision);
}

Result<bool> FilesRegistry::remove(const std::string& name, uint64_t expected) {
  MR_TRY(check_name(name));
  const Turn turn = MR_TRY(take_turn());
  const auto stored = MR_TRY(find_stored(name));
  if (!stored || stored->revision != expected) return false;
  MR_TRY(raise_revision(turn));
  MR_TRY(turn.remove(entry_path(name)));
  return true;
}

Result<LeaseId> FilesRegistry::grant(milliseconds ttl) {
  MR_TRY(check_ttl(ttl));
  const Turn turn = MR_TRY(take_turn());
  const LeaseId lease{MR_TRY(raise_revision(turn))};
  MR_TRY(turn.put(lease_path(lease), lease_text(ttl)));
  return lease;
}

Result<bool> FilesRegistry::renew(LeaseId lease) {
  const Turn turn = MR_TRY(take_turn());
  const auto ttl = MR_TRY(find_lease(lease));
  if (!ttl) return false;
  // In place and not flushed: a lease need not outlive the boot, and flushing every second wears drives.
  const std::string path = lease_path(lease);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return make_system_error(errno, "opening " + path);
  MR_TRY(File(descriptor, path).write_at(0, lease_text(*ttl)));
  return true;
}

Status FilesRegistry::revoke(LeaseId lease) {
  const Turn turn = MR_TRY(take_turn());
  if (!file_exists(lease_path(lease))) return {};
  return end_leases(turn, {lease});
}

// Looks at the revision whenever inotify says that its file was replaced, and every kLookEvery.
class FilesRegistry::FilesWatch : public Watch {
 public:
  FilesWatch(const FilesRegistry& of, std::function<void()> changed)
      : registry_(of.directory_, of.boot_id_), changed_(std::move(changed)) {
    const int stop = ::eventfd(0, EFD_CLOEXEC);
    MR_ASSERT(stop >= 0, errno);
    stop_ = File(stop, "eventfd");
    // Without inotify the watch is only slower.
    const int notices = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (notices >= 0) notices_ = File(notices, "inotify");
    if (notices >= 0 && ::inotify_add_watch(notices, of.directory_.c_str(), IN_MOVED_TO) < 0)
      notices_ = File();
    const auto revision = registry_.read_revision();
    if (revision) seen_ = *revision;
    thread_ = std::jthread([this] { run(); });
  }
  ~FilesWatch() override {
    const uint64_t one = 1;
    const ssize_t written = ::write(stop_.descriptor(), &one, sizeof one);
    MR_ASSERT(written == sizeof one, errno);
  }

 private:
  void run() {
    while (!wait_for_stop()) {
      const auto overdue = registry_.overdue_leases();
      // Taking a turn removes what those leases left. If that fails, the next round tries again.
      if (overdue && !overdue->empty()) static_cast<void>(registry_.take_turn());
      const auto revision = registry_.read_revision();
      if (!revision || seen_ == *revision) continue;
      seen_ = *revision;
      changed_();
    }
  }

  // Until something may have changed.
  bool wait_for_stop() {
    std::array<pollfd, 2> sources = {
        {{stop_.descriptor(), POLLIN, 0}, {notices_.is_open() ? notices_.descriptor() : -1, POLLIN, 0}}};
    ::poll(sources.data(), sources.size(), static_cast<int>(kLookEvery.count()));
    std::array<char, 4096> unread{};
    while (notices_.is_open() && ::read(notices_.descriptor(), unread.data(), unread.size()) > 0) {
    }
    return (sources[0].revents & POLLIN) != 0;
  }

  FilesRegistry registry_;
  const std::function<void()> changed_;
  File stop_;
  File notices_;
  std::optional<uint64_t> seen_;
  std::jthread thread_;  // last: it uses all of the above
};

std::unique_ptr<Watch> FilesRegistry::watch(const std::string& prefix, std::function<void()> changed) {
  // The revision says that something changed, not what: a call too many is allowed, and it is rare.
  static_cast<void>(prefix);
  return std::make_unique<FilesWatch>(*this, std::move(changed));
}

}  // namespace millrace::cluster
