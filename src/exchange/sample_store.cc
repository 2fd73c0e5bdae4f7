// Implements SampleStore: maps segments and finds blocks by slot.
#include "exchange/sample_store.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/crc.h"
#include "base/file_stamp.h"
#include "base/text.h"

namespace millrace::exchange {

std::string rank_directory(const std::string& root, uint32_t rank) {
  return fmt::format("{}/rank-{:05}", root, rank);
}

Result<Manifest> read_manifest(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  const std::string bytes = MR_TRY(read_file(path, kMaxManifestBytes));
  return parse_manifest(bytes).within(path);
}

Result<Manifest> read_current(const std::string& directory) {
  const std::string path = directory + "/" + std::string(kCurrentName);
  if (!file_exists(path)) {
    return make_error(Code::kNotFound, "{}: there is no sample store", directory)
        .with_hint("make one with millrace pls ingest");
  }
  const std::string text = MR_TRY(read_file(path, 256));
  const std::string name(trim(text, " \t\r\n"));
  if (!name.starts_with("manifest.") || name.find('/') != std::string::npos)
    return make_error(Code::kCorrupt, "{} names no manifest: \"{}\"", path, printable(name, 80));
  return read_manifest(directory, name);
}

Result<std::shared_ptr<const SampleStore>> SampleStore::open(const std::string& directory) {
  // Between reading CURRENT and the manifest it names, another epoch may be committed and the old one be
  // gone.
  for (int tries = 0;; ++tries) {
    const std::string stamp = file_stamp(directory + "/" + std::string(kCurrentName));
    auto manifest = read_current(directory);
    Result<std::shared_ptr<const SampleStore>> opened;
    if (manifest) {
      opened = open(directory, manifest.take());
    } else {
      opened = manifest.take_error();
    }
    if (opened) {
      const_cast<SampleStore&>(**opened).stamp_ = stamp;
      return opened;
    }
    if (tries == 3 || stamp == file_stamp(directory + "/" + std::string(kCurrentName))) return opened;
  }
}

Result<std::shared_ptr<const SampleStore>> SampleStore::open(const std::string& directory,
                                                             Manifest manifest) {
  const std::shared_ptr<SampleStore> store(new SampleStore);
  store->directory_ = directory;
  store->manifest_ = std::move(manifest);
  for (const Segment& segment : store->manifest_.segments) {
    const std::string path = directory + "/" + segment_name(segment.number);
    MappedFile mapped = MR_TRY(MappedFile::open(path));
    if (mapped.bytes().size() != segment.bytes) {
      return make_error(Code::kCorrupt, "{} has {} bytes, its manifest says {}", path, mapped.bytes().size(),
                        segment.bytes);
    }
    store->segments_.emplace(segment.number, std::move(mapped));
  }
  return std::shared_ptr<const SampleStore>(store);
}

bool SampleStore::is_current() const {
  return stamp_ == file_stamp(directory_ + "/" + std::string(kCurrentName));
}

std::string_view SampleStore::blocks(size_t slot) const {
  const Record& record = manifest_.records[slot];
  return segments_.at(record.segment).bytes().substr(record.offset, record.bytes);
}

Status SampleStore::check_blocks(const Record& record, std::string_view blocks) const {
  if (crc32c(blocks) == record.crc) return {};
  return make_error(Code::kCorrupt,
                    "{}/{}: sample {} at byte {} is not what was stored (its checksum differs)", directory_,
                    segment_name(record.segment), record.id, record.offset)
      .with_hint("take it from its source again; millrace pls verify names all such samples");
}

Status SampleStore::check(size_t slot) const {
  return check_blocks(manifest_.records[slot], blocks(slot));
}

std::vector<std::string> SampleStore::segment_paths() const {
  std::vector<std::string> paths;
  for (const Segment& segment : manifest_.segments)
    paths.push_back(directory_ + "/" + segment_name(segment.number));
  return paths;
}

std::vector<uint64_t> SampleStore::numbers() const {
  std::map<uint32_t, uint64_t> first;
  uint64_t count = 0;
  for (const Segment& segment : manifest_.segments) {
    first[segment.number] = count;
    count += segment.samples;
  }
  std::vector<uint64_t> numbers;
  for (const Record& record : manifest_.records) numbers.push_back(first[record.segment] + record.ordinal);
  std::ranges::sort(numbers);
  return numbers;
}

uint64_t SampleStore::disk_bytes() const {
  uint64_t sum = 0;
  for (const std::string& path : segment_paths()) {
    struct stat found{};
    if (::stat(path.c_str(), &found) == 0) sum += static_cast<uint64_t>(found.st_blocks) * 512;
  }
  return sum;
}

}  // namespace millrace::exchange
