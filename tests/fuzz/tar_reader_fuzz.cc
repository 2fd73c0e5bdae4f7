// Archives of any bytes: the mapped reader, the stream reader and the fed reader must see the same members
// and fail together; samples come out alike; and an archive that reads well has an index that parses.
//
// Input: 4 bytes of control, then the archive. Control: bit 0 concatenated, bit 1 repair the checksums (or no
// change to a header would ever get past them), all of it the seed of the chunk sizes.
#include <cstdint>
#include <cstring>
#include <string>

#include "base/random.h"
#include "tar/index_build.h"
#include "tar/sample.h"
#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using namespace testing;

void repair_checksums(std::string& archive) {
  for (size_t at = 0; at + kBlock <= archive.size(); at += kBlock) {
    Header header;
    std::memcpy(&header, archive.data() + at, kBlock);
    if (std::memcmp(header.magic, "ustar", 5) != 0) continue;
    seal(header);
    std::memcpy(archive.data() + at, &header, kBlock);
  }
}

void check_same(const Outcome& left, const Outcome& right) {
  MR_ASSERT(left.error.has_value() == right.error.has_value(), left.error ? left.error->message() : "fine",
            right.error ? right.error->message() : "fine");
  MR_ASSERT(left.members.size() == right.members.size(), left.members.size(), right.members.size());
  for (size_t i = 0; i < left.members.size(); ++i) {
    MR_ASSERT(left.members[i] == right.members[i], i, left.members[i].name, right.members[i].name);
  }
}

// The hash of all samples' keys, fields and bytes.
uint64_t read_samples(Window& window, Archives archives) {
  SampleReader reader(window, "fuzz.tar", {archives, {KeyRule::kFirstDot, OnFault::kMark}});
  Hasher hasher;
  while (true) {
    const auto sample = reader.next();
    if (!sample || *sample == nullptr) return hasher.value();
    hasher.add((*sample)->key);
    for (const Field& field : (*sample)->fields) {
      hasher.add(field.field);
      hasher.add(field.bytes);
    }
    std::string blocks;
    const Status copied = append_blocks(blocks, **sample);
    static_cast<void>(copied);  // a name with a NUL has no new header
  }
}

void check_index(const std::string& archive, bool reads_well) {
  IndexFeed feed("fuzz.tar", {.group = {.on_fault = OnFault::kMark}});
  feed.add_stored(archive);
  const bool fed = feed.add_tar(archive).has_value();
  auto bytes =
      fed ? feed.finish(Compression::kNone) : Result<std::string>(make_error(Code::kCorrupt, "not fed"));
  MR_ASSERT(bytes.has_value() == reads_well, reads_well);
  if (!bytes) return;
  const auto index = Index::parse(bytes.take());
  MR_ASSERT(index.has_value(), index.error().message());
}

}  // namespace
}  // namespace millrace::tar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  using namespace millrace;
  using namespace millrace::tar;
  if (size < 4) return 0;
  uint32_t control = 0;
  std::memcpy(&control, input, sizeof control);
  std::string archive(reinterpret_cast<const char*>(input) + 4, size - 4);
  if ((control & 2) != 0) repair_checksums(archive);
  const Archives archives = (control & 1) != 0 ? Archives::kConcatenated : Archives::kOne;

  Random random(control);
  const Outcome mapped = read_mapped(archive, archives);
  check_same(mapped, read_feed_by(archive, archives, [&](size_t) { return 1 + random.below(1500); }));
  check_same(mapped, read_stream(archive, 1 + random.below(3000), archives));

  MappedWindow mapped_window(archive);
  StringSource source(archive, 1 + random.below(3000));
  // No input is as long as this, yet one may claim to be: the window reserves what a header promises.
  StreamWindow stream_window(source, 64 << 20);
  MR_ASSERT(read_samples(mapped_window, archives) == read_samples(stream_window, archives));
  if (archives == Archives::kOne) check_index(archive, !mapped.error);
  return 0;
}
