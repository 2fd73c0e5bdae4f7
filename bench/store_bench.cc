// store_bench: what the storage engine does without a network: large PUTs, small durable PUTs against a file
// each, lookups, listings, cold reads against plain reads, reopening.
//
//   store_bench DIRECTORY [large_bytes [small_objects [listed_objects]]]
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "store/store.h"

namespace {

using millrace::steady_us;
using namespace millrace::store;  // NOLINT: all of it

constexpr size_t kWriters = 64;
constexpr size_t kSmallBytes = 4096;

double seconds_since(uint64_t started_us) {
  return static_cast<double>(steady_us() - started_us) / 1e6;
}

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "store_bench: %s failed\n", what);
  std::exit(1);
}

void put(Store& store, const std::string& key, uint64_t size, const std::string& pattern) {
  PutOptions options;
  options.bucket = "bench";
  options.key = key;
  options.size = size;
  auto writer = store.put(options);
  must(writer.has_value(), "put");
  uint64_t left = size;
  while (left > 0) {
    const auto space = (*writer)->space();
    if (space.empty()) {
      auto ready = std::make_shared<std::promise<void>>();
      (*writer)->when_space([ready] { ready->set_value(); });
      ready->get_future().wait();
      continue;
    }
    const size_t now = std::min<uint64_t>({space.size(), left, pattern.size()});
    std::memcpy(space.data(), pattern.data(), now);
    must((*writer)->advance(now).has_value(), "advance");
    left -= now;
  }
  auto done = std::make_shared<std::promise<bool>>();
  (*writer)->finish({}, [done](auto result) { done->set_value(result.has_value()); });
  must(done->get_future().get(), "finish");
}

template <typename Work>
double rate_of(size_t count, const Work& work) {
  std::atomic<size_t> next = 0;
  const uint64_t started = steady_us();
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kWriters; ++i) {
      threads.emplace_back([&] {
        while (true) {
          const size_t mine = next++;
          if (mine >= count) return;
          work(mine);
        }
      });
    }
  }
  return static_cast<double>(count) / seconds_since(started);
}

void file_per_object(const std::string& directory, size_t number, const std::string& bytes) {
  const std::string temporary = directory + "/t" + std::to_string(number);
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  must(file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "write");
  must(::fdatasync(file) == 0, "fdatasync");
  ::close(file);
  must(::rename(temporary.c_str(), (directory + "/f" + std::to_string(number)).c_str()) == 0, "rename");
}

void drop(const std::string& directory) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY);
    if (file < 0) continue;
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

double cold_plain(const std::string& drive, uint64_t size) {
  drop(drive + "/data");
  std::string path;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(drive + "/data")) {
    if (entry.is_regular_file() && entry.file_size() >= size) path = entry.path();
  }
  const int file = ::open(path.c_str(), O_RDONLY);
  std::string buffer(256 << 10, '\0');
  const uint64_t started = steady_us();
  uint64_t done = 0;
  while (done < size) done += static_cast<uint64_t>(::read(file, buffer.data(), buffer.size()));
  ::close(file);
  return static_cast<double>(size) / seconds_since(started) / 1e9;
}

double cold_prepared(Store& store, const std::string& drive, uint64_t size) {
  drop(drive + "/data");
  auto object = store.get_object("bench", "large");
  must(object.has_value(), "get");
  std::string buffer(4 << 20, '\0');
  const uint64_t started = steady_us();
  for (uint64_t at = 0; at < size;) {
    auto ready = store.find_ready(**object, at, size - at);
    if (!ready) {
      auto outcome = std::make_shared<std::promise<millrace::Result<Extent>>>();
      store.prepare(*object, at, size - at,
                    [outcome](auto extent) { outcome->set_value(std::move(extent)); });
      auto extent = outcome->get_future().get();
      must(extent.has_value(), "prepare");
      ready = extent.take();
    }
    // What sendfile would do with it, about.
    must(
        ::pread(ready->file->descriptor(), buffer.data(), ready->size, static_cast<off_t>(ready->offset)) > 0,
        "read");
    at += ready->size;
  }
  return static_cast<double>(size) / seconds_since(started) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: store_bench DIRECTORY [large_bytes [small_objects [listed_objects]]]\n");
    return 2;
  }
  const std::string directory = argv[1];
  const uint64_t large = argc > 2 ? std::stoull(argv[2]) : uint64_t{1} << 30;
  const size_t small = argc > 3 ? std::stoul(argv[3]) : 50'000;
  const size_t listed = argc > 4 ? std::stoul(argv[4]) : 200'000;
  std::filesystem::create_directories(directory + "/files");
  millrace::Log log(millrace::LogLevel::kWarn);
  StoreOptions options;
  options.state_directory = directory + "/state";
  options.drives = {directory + "/drive"};
  options.scrub_bytes_per_second = 0;
  auto opened = Store::open(options, log);
  must(opened.has_value(), "open");
  std::unique_ptr<Store> store = opened.take();
  must(store->find_bucket("bench") || store->create_bucket("bench", {}), "bucket");
  BucketSettings fast;
  fast.durability = Durability::kOs;
  std::string pattern(kBlockBytes, '\0');
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<char>(i * 2654435761 >> 13);

  for (int turn = 0; turn < 3; ++turn) {
    const uint64_t started = steady_us();
    put(*store, "large", large, pattern);
    std::printf("put %.0f MB, durable: %.2f GB/s\n", static_cast<double>(large) / 1e6,
                static_cast<double>(large) / seconds_since(started) / 1e9);
  }
  for (int turn = 0; turn < 3; ++turn) {
    std::printf("cold read, plain 256K: %.2f GB/s\n", cold_plain(options.drives[0], large));
    std::printf("cold read, prepared windows: %.2f GB/s\n", cold_prepared(*store, options.drives[0], large));
  }
  const std::string bytes = pattern.substr(0, kSmallBytes);
  const double files =
      rate_of(small / 10, [&](size_t i) { file_per_object(directory + "/files", i, bytes); });
  std::printf("create+fdatasync+rename, 4 KB, 64 threads: %.0f/s\n", files);
  const double commits =
      rate_of(small, [&](size_t i) { put(*store, "s/" + std::to_string(i), kSmallBytes, pattern); });
  std::printf("put 4 KB, 64 threads, durable: %.0f/s (%.1fx)\n", commits, commits / files);
  const double middle =
      rate_of(small / 20, [&](size_t i) { put(*store, "m/" + std::to_string(i), 100'000, pattern); });
  std::printf("put 100 KB, 64 threads, durable: %.0f/s\n", middle);

  must(store->change_bucket("bench", fast).has_value(), "change");
  const double unflushed =
      rate_of(listed, [&](size_t i) { put(*store, "l/" + std::to_string(i * 7919 % listed), 8, pattern); });
  std::printf("put 8 B, 64 threads, class os: %.0f/s\n", unflushed);
  {
    const uint64_t started = steady_us();
    ListOptions page;
    page.prefix = "l/";
    size_t count = 0;
    while (true) {
      const auto found = store->list("bench", page);
      must(found.has_value(), "list");
      count += found->entries.size();
      if (!found->truncated) break;
      page.after = found->entries.back().key;
    }
    std::printf("list %zu keys in pages of 1000: %.0f keys/s\n", count,
                static_cast<double>(count) / seconds_since(started));
  }
  {
    must(store->get_object("bench", "s/1").has_value(), "get");
    constexpr int kTurns = 2'000'000;
    const uint64_t started = steady_us();
    for (int i = 0; i < kTurns; ++i) must(store->find_object("bench", "s/1") != nullptr, "find");
    std::printf("find_object: %.0f ns\n", seconds_since(started) * 1e9 / kTurns);
  }
  uint64_t started = steady_us();
  store.reset();
  std::printf("close: %.2f s\n", seconds_since(started));
  started = steady_us();
  opened = Store::open(options, log);
  must(opened.has_value(), "open");
  std::printf("open again: %.2f s\n", seconds_since(started));
  return 0;
}
