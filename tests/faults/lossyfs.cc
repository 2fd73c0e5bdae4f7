// lossyfs: a file system that loses power on request, for tests of what a program flushes.
//
//   lossyfs MOUNTPOINT [--sync-ms N] [--write-ms N] [--seed N]
//     SIGUSR1  power loss: only what fsync made durable is left
//     SIGUSR2  power loss with a torn end: of what was not flushed some 4 KiB pages of files survive, at
//     random, and
//              of the directory changes those made before a random moment, as with a metadata journal
//     SIGHUP   read-only: every change is refused with EROFS; once more: writable again
//     SIGPWR   failing: every change is refused with EIO, of writes a random part is done; once more: well
//     again
//     SIGALRM  unreadable: every read of a file is refused with EIO; once more: readable again
//     SIGTERM  unmounts and ends
//
// Every file has the bytes that programs see and those that were flushed; every directory has its entries
// likewise. The fsync of a file keeps its bytes and length, not its name; the fsync of a directory keeps its
// names. Everything is in memory. One line on standard output says that it is mounted, and one that each
// signal is obeyed. No program may have files open across a power loss: kill it first. --sync-ms makes every
// flush take that long, as drives do, --write-ms every write, as drives that wear out do.
#define FUSE_USE_VERSION 35
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr size_t kBlock = 64 << 10;
constexpr size_t kPage = 4 << 10;
constexpr uint64_t kCapacity = uint64_t{64} << 30;

// Bytes in blocks that two states share until one of them is written to. No block: zeros.
struct Bytes {
  uint64_t size = 0;
  std::vector<std::shared_ptr<std::string>> blocks;

  char* writable(size_t number) {
    if (blocks.size() <= number) blocks.resize(number + 1);
    auto& block = blocks[number];
    if (block == nullptr) {
      block = std::make_shared<std::string>(kBlock, '\0');
    } else if (block.use_count() > 1) {
      block = std::make_shared<std::string>(*block);
    }
    return block->data();
  }

  void write(uint64_t at, const char* from, size_t count) {
    size = std::max(size, at + count);
    while (count > 0) {
      const size_t within = at % kBlock;
      const size_t now = std::min(count, kBlock - within);
      std::memcpy(writable(at / kBlock) + within, from, now);
      at += now;
      from += now;
      count -= now;
    }
  }

  std::string read(uint64_t at, size_t count) const {
    if (at >= size) return {};
    std::string out(std::min<uint64_t>(count, size - at), '\0');
    for (size_t done = 0; done < out.size();) {
      const size_t within = (at + done) % kBlock;
      const size_t now = std::min(out.size() - done, kBlock - within);
      const size_t number = (at + done) / kBlock;
      if (number < blocks.size() && blocks[number])
        std::memcpy(&out[done], blocks[number]->data() + within, now);
      done += now;
    }
    return out;
  }

  void resize(uint64_t to) {
    if (to < size) {
      blocks.resize(std::min<size_t>(blocks.size(), (to + kBlock - 1) / kBlock));
      const size_t within = to % kBlock;
      if (within != 0 && blocks.size() == to / kBlock + 1 && blocks.back()) {
        std::memset(writable(to / kBlock) + within, 0, kBlock - within);
      }
    }
    size = to;
  }
};

struct Inode;
using InodePtr = std::shared_ptr<Inode>;
using Names = std::map<std::string, InodePtr>;

struct Inode {
  fuse_ino_t number = 0;
  mode_t mode = 0;
  uint64_t links = 1;
  timespec changed = {};
  uint64_t lookups = 0;  // by the kernel
  Bytes now;
  Bytes durable;
  Names names;
  Names durable_names;

  bool is_directory() const { return S_ISDIR(mode); }
};

// A change of a directory that is not flushed; `what` is empty for a name that went.
struct NameChange {
  InodePtr directory;
  std::string name;
  InodePtr what;
};

class Volume {
 public:
  Volume() { root_ = make(S_IFDIR | 0755); }

  std::mutex mutex;
  unsigned sync_ms = 0;
  unsigned write_ms = 0;
  int refusal = 0;  // the error of every change
  bool unreadable = false;
  uint64_t random = 1;

  InodePtr root() const { return root_; }
  InodePtr find(fuse_ino_t number) const { return known_.at(number); }

  InodePtr make(mode_t mode) {
    auto inode = std::make_shared<Inode>();
    inode->number = next_++;
    inode->mode = mode;
    touch(*inode);
    known_[inode->number] = inode;
    return inode;
  }

  static void touch(Inode& inode) { ::clock_gettime(CLOCK_REALTIME, &inode.changed); }

  void change(const InodePtr& directory, const std::string& name, const InodePtr& what) {
    if (what) {
      directory->names[name] = what;
    } else {
      directory->names.erase(name);
    }
    touch(*directory);
    pending_.push_back({directory, name, what});
  }

  void flush_directory(const InodePtr& directory) {
    directory->durable_names = directory->names;
    std::erase_if(pending_, [&](const NameChange& change) { return change.directory == directory; });
  }

  void forget(fuse_ino_t number, uint64_t count) {
    const auto found = known_.find(number);
    if (found == known_.end() || number == FUSE_ROOT_ID) return;
    found->second->lookups -= std::min(count, found->second->lookups);
    if (found->second->lookups == 0) known_.erase(found);
  }

  // The kernel may ask for an inode again after it was told to be forgotten: by a lookup.
  void know(const InodePtr& inode) {
    ++inode->lookups;
    known_[inode->number] = inode;
  }

  void lose_power(bool torn) {
    if (torn) {
      const size_t kept = pending_.empty() ? 0 : draw() % (pending_.size() + 1);
      for (size_t i = 0; i < kept; ++i) {
        const NameChange& change = pending_[i];
        if (change.what) {
          change.directory->durable_names[change.name] = change.what;
        } else {
          change.directory->durable_names.erase(change.name);
        }
      }
    }
    pending_.clear();
    std::map<Inode*, uint64_t> links;
    restore(root_, torn, links);
  }

  uint64_t draw() {  // splitmix64
    uint64_t mixed = random += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
  }

 private:
  void restore(const InodePtr& inode, bool torn, std::map<Inode*, uint64_t>& links) {
    if (++links[inode.get()] > 1) {
      inode->links = links[inode.get()];
      return;
    }
    inode->links = 1;
    if (!inode->is_directory()) {
      if (torn) tear(*inode);
      inode->now = inode->durable;
      return;
    }
    inode->names = inode->durable_names;
    for (const auto& [name, child] : inode->names) restore(child, torn, links);
  }

  void tear(Inode& inode) {
    const Bytes& live = inode.now;
    if (live.size != inode.durable.size && draw() % 2 == 0) inode.durable.resize(live.size);
    for (size_t number = 0; number < live.blocks.size(); ++number) {
      if (!live.blocks[number]) continue;
      const bool same =
          number < inode.durable.blocks.size() && inode.durable.blocks[number] == live.blocks[number];
      if (same) continue;
      for (size_t at = 0; at < kBlock; at += kPage) {
        const uint64_t offset = number * kBlock + at;
        if (offset >= inode.durable.size || draw() % 2 == 0) continue;
        const size_t count = std::min<uint64_t>(kPage, inode.durable.size - offset);
        std::memcpy(inode.durable.writable(number) + at, live.blocks[number]->data() + at, count);
      }
    }
  }

  fuse_ino_t next_ = FUSE_ROOT_ID;
  InodePtr root_;
  std::unordered_map<fuse_ino_t, InodePtr> known_;
  std::vector<NameChange> pending_;
};

Volume& volume() {
  static Volume only;
  return only;
}

struct stat facts_of(const Inode& inode) {
  struct stat facts = {};
  facts.st_ino = inode.number;
  facts.st_mode = inode.mode;
  facts.st_nlink = inode.is_directory() ? 2 : inode.links;
  facts.st_size = static_cast<off_t>(inode.now.size);
  facts.st_blocks = static_cast<blkcnt_t>((inode.now.size + 511) / 512);
  facts.st_blksize = kPage;
  facts.st_atim = facts.st_mtim = facts.st_ctim = inode.changed;
  return facts;
}

fuse_entry_param entry_of(const InodePtr& inode) {
  volume().know(inode);
  fuse_entry_param entry = {};
  entry.ino = inode->number;
  entry.attr = facts_of(*inode);
  return entry;  // timeouts of zero: the kernel asks each time, also after a power loss
}

InodePtr child_of(fuse_ino_t parent, const char* name) {
  const Names& names = volume().find(parent)->names;
  const auto found = names.find(name);
  return found == names.end() ? nullptr : found->second;
}

// Answers, where it may not be changed.
bool is_refused(fuse_req_t request) {
  if (volume().refusal != 0) fuse_reply_err(request, volume().refusal);
  return volume().refusal != 0;
}

void on_init(void*, fuse_conn_info* connection) {
  connection->max_write = 1 << 20;
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_WRITEBACK_CACHE);
}

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const InodePtr child = child_of(parent, name);
  if (child == nullptr) return static_cast<void>(fuse_reply_err(request, ENOENT));
  const fuse_entry_param entry = entry_of(child);
  fuse_reply_entry(request, &entry);
}

void on_forget(fuse_req_t request, fuse_ino_t number, uint64_t count) {
  volume().forget(number, count);
  fuse_reply_none(request);
}

void on_forget_many(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  for (size_t i = 0; i < count; ++i) volume().forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(request);
}

void on_getattr(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
  const struct stat facts = facts_of(*volume().find(number));
  fuse_reply_attr(request, &facts, 0);
}

void on_setattr(fuse_req_t request, fuse_ino_t number, struct stat* wanted, int which, fuse_file_info*) {
  if (is_refused(request)) return;
  Inode& inode = *volume().find(number);
  if ((which & FUSE_SET_ATTR_SIZE) != 0) inode.now.resize(static_cast<uint64_t>(wanted->st_size));
  if ((which & FUSE_SET_ATTR_MODE) != 0) inode.mode = (inode.mode & S_IFMT) | (wanted->st_mode & 07777);
  Volume::touch(inode);
  const struct stat facts = facts_of(inode);
  fuse_reply_attr(request, &facts, 0);
}

void on_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  if (is_refused(request)) return;
  if (child_of(parent, name)) return static_cast<void>(fuse_reply_err(request, EEXIST));
  const InodePtr made = volume().make(S_IFDIR | (mode & 07777));
  volume().change(volume().find(parent), name, made);
  const fuse_entry_param entry = entry_of(made);
  fuse_reply_entry(request, &entry);
}

void on_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (is_refused(request)) return;
  const InodePtr child = child_of(parent, name);
  if (child == nullptr) return static_cast<void>(fuse_reply_err(request, ENOENT));
  --child->links;
  volume().change(volume().find(parent), name, nullptr);
  fuse_reply_err(request, 0);
}

void on_rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  if (is_refused(request)) return;
  const InodePtr child = child_of(parent, name);
  if (child == nullptr) return static_cast<void>(fuse_reply_err(request, ENOENT));
  if (!child->names.empty()) return static_cast<void>(fuse_reply_err(request, ENOTEMPTY));
  volume().change(volume().find(parent), name, nullptr);
  fuse_reply_err(request, 0);
}

void on_rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t to, const char* new_name,
               unsigned flags) {
  if (is_refused(request)) return;
  const InodePtr child = child_of(parent, name);
  const InodePtr replaced = child_of(to, new_name);
  if (child == nullptr) return static_cast<void>(fuse_reply_err(request, ENOENT));
  if (flags != 0) return static_cast<void>(fuse_reply_err(request, EINVAL));
  if (replaced && !replaced->names.empty()) return static_cast<void>(fuse_reply_err(request, ENOTEMPTY));
  if (replaced != child) {
    if (replaced) --replaced->links;
    // The new name first: a journal never forgets both.
    volume().change(volume().find(to), new_name, child);
    volume().change(volume().find(parent), name, nullptr);
  }
  fuse_reply_err(request, 0);
}

void on_link(fuse_req_t request, fuse_ino_t number, fuse_ino_t parent, const char* name) {
  if (is_refused(request)) return;
  if (child_of(parent, name)) return static_cast<void>(fuse_reply_err(request, EEXIST));
  const InodePtr inode = volume().find(number);
  ++inode->links;
  volume().change(volume().find(parent), name, inode);
  const fuse_entry_param entry = entry_of(inode);
  fuse_reply_entry(request, &entry);
}

void on_open(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
  if ((info->flags & O_ACCMODE) != O_RDONLY && is_refused(request)) return;
  if ((info->flags & O_TRUNC) != 0) volume().find(number)->now.resize(0);
  info->keep_cache = 0;  // the kernel's pages may be from before a power loss
  fuse_reply_open(request, info);
}

void on_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  if (is_refused(request)) return;
  if (child_of(parent, name)) return static_cast<void>(fuse_reply_err(request, EEXIST));
  const InodePtr made = volume().make(S_IFREG | (mode & 07777));
  volume().change(volume().find(parent), name, made);
  const fuse_entry_param entry = entry_of(made);
  fuse_reply_create(request, &entry, info);
}

void on_read(fuse_req_t request, fuse_ino_t number, size_t count, off_t at, fuse_file_info*) {
  if (volume().unreadable) {
    fuse_reply_err(request, EIO);
    return;
  }
  const std::string bytes = volume().find(number)->now.read(static_cast<uint64_t>(at), count);
  fuse_reply_buf(request, bytes.data(), bytes.size());
}

void wait_ms(unsigned milliseconds) {
  if (milliseconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

void on_write(fuse_req_t request, fuse_ino_t number, const char* bytes, size_t count, off_t at,
              fuse_file_info*) {
  Inode& inode = *volume().find(number);
  if (volume().refusal == EIO)
    inode.now.write(static_cast<uint64_t>(at), bytes, volume().draw() % (count + 1));
  if (is_refused(request)) return;
  wait_ms(volume().write_ms);
  inode.now.write(static_cast<uint64_t>(at), bytes, count);
  Volume::touch(inode);
  fuse_reply_write(request, count);
}

void on_fsync(fuse_req_t request, fuse_ino_t number, int, fuse_file_info*) {
  if (is_refused(request)) return;
  wait_ms(volume().sync_ms);
  Inode& inode = *volume().find(number);
  inode.durable = inode.now;
  fuse_reply_err(request, 0);
}

void on_fsyncdir(fuse_req_t request, fuse_ino_t number, int, fuse_file_info*) {
  if (is_refused(request)) return;
  wait_ms(volume().sync_ms);
  volume().flush_directory(volume().find(number));
  fuse_reply_err(request, 0);
}

// The listing is taken when the directory is opened: names that come and go meanwhile do not shift it.
void on_opendir(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
  auto listing = std::make_unique<std::vector<std::pair<std::string, InodePtr>>>();
  const InodePtr directory = volume().find(number);
  listing->emplace_back(".", directory);
  listing->emplace_back("..", directory);
  for (const auto& [name, child] : directory->names) listing->emplace_back(name, child);
  info->fh = reinterpret_cast<uint64_t>(listing.release());
  fuse_reply_open(request, info);
}

void on_readdir(fuse_req_t request, fuse_ino_t, size_t count, off_t at, fuse_file_info* info) {
  const auto& listing = *reinterpret_cast<std::vector<std::pair<std::string, InodePtr>>*>(info->fh);
  std::string out(count, '\0');
  size_t used = 0;
  for (auto i = static_cast<size_t>(at); i < listing.size(); ++i) {
    const struct stat facts = facts_of(*listing[i].second);
    const size_t size = fuse_add_direntry(request, &out[used], count - used, listing[i].first.c_str(), &facts,
                                          static_cast<off_t>(i + 1));
    if (size > count - used) break;
    used += size;
  }
  fuse_reply_buf(request, out.data(), used);
}

void on_releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  delete reinterpret_cast<std::vector<std::pair<std::string, InodePtr>>*>(info->fh);
  fuse_reply_err(request, 0);
}

void on_statfs(fuse_req_t request, fuse_ino_t) {
  struct statvfs facts = {};
  facts.f_bsize = facts.f_frsize = kPage;
  facts.f_blocks = facts.f_bfree = facts.f_bavail = kCapacity / kPage;
  facts.f_files = facts.f_ffree = facts.f_favail = 1 << 24;
  facts.f_namemax = 255;
  fuse_reply_statfs(request, &facts);
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops = {};
  ops.init = on_init;
  ops.lookup = on_lookup;
  ops.forget = on_forget;
  ops.forget_multi = on_forget_many;
  ops.getattr = on_getattr;
  ops.setattr = on_setattr;
  ops.mkdir = on_mkdir;
  ops.unlink = on_unlink;
  ops.rmdir = on_rmdir;
  ops.rename = on_rename;
  ops.link = on_link;
  ops.open = on_open;
  ops.create = on_create;
  ops.read = on_read;
  ops.write = on_write;
  ops.fsync = on_fsync;
  ops.fsyncdir = on_fsyncdir;
  ops.opendir = on_opendir;
  ops.readdir = on_readdir;
  ops.releasedir = on_releasedir;
  ops.statfs = on_statfs;
  return ops;
}

void say(const char* what) {
  std::printf("%s\n", what);
  std::fflush(stdout);
}

void watch_signals(const sigset_t& signals, fuse_session* session) {
  while (true) {
    int number = 0;
    if (::sigwait(&signals, &number) != 0) continue;
    if (number == SIGTERM || number == SIGINT) {
      fuse_session_exit(session);
      fuse_session_unmount(session);
      return;
    }
    const std::lock_guard lock(volume().mutex);
    if (number == SIGHUP || number == SIGPWR) {
      const int refusal = number == SIGHUP ? EROFS : EIO;
      volume().refusal = volume().refusal == refusal ? 0 : refusal;
      say(volume().refusal == 0 ? "writable" : number == SIGHUP ? "read-only" : "failing");
      continue;
    }
    if (number == SIGALRM) {
      volume().unreadable = !volume().unreadable;
      say(volume().unreadable ? "unreadable" : "readable");
      continue;
    }
    volume().lose_power(number == SIGUSR2);
    say(number == SIGUSR2 ? "power lost, torn" : "power lost");
  }
}

int serve(fuse_session* session) {
  fuse_buf buffer = {};
  while (!fuse_session_exited(session)) {
    const int got = fuse_session_receive_buf(session, &buffer);
    if (got == -EINTR) continue;
    if (got <= 0) break;
    const std::lock_guard lock(volume().mutex);
    fuse_session_process_buf(session, &buffer);
  }
  std::free(buffer.mem);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "lossyfs MOUNTPOINT [--sync-ms N] [--write-ms N] [--seed N]\n");
    return 2;
  }
  for (int i = 2; i + 1 < count; i += 2) {
    if (std::strcmp(words[i], "--write-ms") == 0)
      volume().write_ms = static_cast<unsigned>(std::atoi(words[i + 1]));
    if (std::strcmp(words[i], "--sync-ms") == 0)
      volume().sync_ms = static_cast<unsigned>(std::atoi(words[i + 1]));
    if (std::strcmp(words[i], "--seed") == 0) volume().random = std::strtoull(words[i + 1], nullptr, 10);
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGUSR1, SIGUSR2, SIGHUP, SIGPWR, SIGALRM, SIGTERM, SIGINT})
    sigaddset(&signals, number);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const char* options[] = {"lossyfs", "-o", "fsname=lossyfs,default_permissions"};
  fuse_args arguments = FUSE_ARGS_INIT(3, const_cast<char**>(options));
  const fuse_lowlevel_ops ops = operations();
  fuse_session* session = fuse_session_new(&arguments, &ops, sizeof ops, nullptr);
  if (session == nullptr || fuse_session_mount(session, words[1]) != 0) return 1;
  std::thread watcher([&] { watch_signals(signals, session); });
  say("mounted");
  const int result = serve(session);
  // Unmounted from outside: the watcher still waits for its signal.
  ::kill(::getpid(), SIGTERM);
  watcher.join();
  fuse_session_destroy(session);
  return result;
}
