// One measurement per run: our readers and the peers that are libraries, on one file, for bench/run.py.
//
//   tar_bench MODE FILE      prints {"seconds": s, "samples": n, "bytes": n}
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "shard/input.h"
#include "tar/sample.h"
#include "tar/window.h"

namespace {

using millrace::MappedFile;

struct Count {
  uint64_t samples = 0;
  uint64_t bytes = 0;
};

[[noreturn]] void fail(const std::string& message) {
  fmt::print(stderr, "tar_bench: {}\n", message);
  std::exit(1);
}

// Grouped samples with every field's first byte touched, as a consumer would at least do.
Count count_samples(millrace::tar::SampleReader& reader) {
  Count count;
  while (true) {
    auto sample = reader.next();
    if (!sample) fail(sample.error().message());
    if (*sample == nullptr) return count;
    ++count.samples;
    for (const auto& field : (*sample)->fields) count.bytes += field.bytes.size();
  }
}

Count mapped(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) fail(file.error().message());
  millrace::tar::MappedWindow window(file->bytes());
  millrace::tar::SampleReader reader(window, path);
  return count_samples(reader);
}

Count stream(const std::string& path) {
  auto input = millrace::shard::ShardInput::open(path, {});
  if (!input) fail(input.error().message());
  return count_samples((*input)->samples());
}

// libarchive as its users call it: blocks of data, no copy of our own.
Count libarchive(const std::string& path) {
  archive* reader = archive_read_new();
  archive_read_support_format_tar(reader);
  archive_read_support_filter_all(reader);
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  if (archive_read_open_fd(reader, descriptor, 64 << 10) != ARCHIVE_OK) fail(archive_error_string(reader));
  Count count;
  archive_entry* entry = nullptr;
  std::vector<char> whole;
  while (archive_read_next_header(reader, &entry) == ARCHIVE_OK) {
    ++count.samples;
    // A consumer wants a field's bytes in one piece.
    const auto size = static_cast<size_t>(archive_entry_size(entry));
    if (whole.size() < size) whole.resize(size);
    const la_ssize_t got = archive_read_data(reader, whole.data(), size);
    count.bytes += static_cast<uint64_t>(got);
  }
  archive_read_free(reader);
  ::close(descriptor);
  return count;
}

Count inflate_ours(const std::string& path) {
  auto input = millrace::shard::ShardInput::open(path, {});
  if (!input) fail(input.error().message());
  std::vector<std::byte> buffer(256 << 10);
  Count count;
  while (true) {
    auto got = (*input)->plain().read_some(buffer);
    if (!got) fail(got.error().message());
    if (*got == 0) return count;
    count.bytes += *got;
  }
}

Count inflate_zlib(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  gzbuffer(file, 256 << 10);
  std::vector<char> buffer(256 << 10);
  Count count;
  while (true) {
    const int got = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()));
    if (got <= 0) break;
    count.bytes += static_cast<uint64_t>(got);
  }
  gzclose(file);
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, Count (*)(const std::string&)> modes = {
      {"mapped", mapped},
      {"stream", stream},
      {"libarchive", libarchive},
      {"inflate-ours", inflate_ours},
      {"inflate-zlib", inflate_zlib},
  };
  if (argc != 3 || !modes.contains(argv[1])) fail("usage: tar_bench MODE FILE");
  const auto start = std::chrono::steady_clock::now();
  const Count count = modes.at(argv[1])(argv[2]);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("{{\"seconds\": {:.6f}, \"samples\": {}, \"bytes\": {}}}\n", elapsed.count(), count.samples,
             count.bytes);
}
