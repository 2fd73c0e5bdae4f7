// Makes and loads index files; one pass over the stored bytes makes an index.
#include "shard/index_file.h"

#include <vector>

#include "net/url.h"
#include "tar/index_build.h"

namespace millrace::shard {

std::string index_path(const std::string& shard) {
  return shard + std::string(tar::kIndexSuffix);
}

Result<std::string> build_index(const std::string& shard, const InputOptions& options) {
  const auto input = MR_TRY(ShardInput::open(shard, options));
  tar::IndexFeed feed(shard, options.read);
  input->stored().tap([&](std::string_view bytes) { feed.add_stored(bytes); });
  std::vector<std::byte> buffer(tar::StreamWindow::kStartBytes);
  while (true) {
    const size_t got = MR_TRY(input->plain().read_some(buffer));
    if (got == 0) break;
    MR_TRY(feed.add_tar({reinterpret_cast<const char*>(buffer.data()), got}));
  }
  return feed.finish(input->compression());
}

Result<IndexReport> make_index(const std::string& shard, const InputOptions& options) {
  if (shard == kStandardStream || is_pipe(shard))
    return make_error(Code::kInvalid, "an index belongs beside a file, not a stream");
  if (net::is_url(shard)) {
    return make_error(Code::kInvalid, "{}: a store makes the indexes of its shards itself", shard)
        .with_hint("fetch the shard with millrace get to index it here");
  }
  std::string bytes = MR_TRY(build_index(shard, options));
  MR_TRY(write_file_atomically(index_path(shard), bytes));
  const uint64_t index_bytes = bytes.size();
  const tar::Index index = MR_TRY(tar::Index::parse(std::move(bytes)));
  if (options.progress != nullptr) options.progress->add(0, index.samples());
  return IndexReport{index.samples(), index.shard().stored_bytes, index_bytes};
}

Result<tar::Index> load_index(const std::string& shard) {
  const uint64_t shard_bytes = MR_TRY(file_size(shard));
  std::string bytes = MR_TRY(read_file(index_path(shard), kMaxIndexBytes));
  tar::Index index = MR_TRY(tar::Index::parse(std::move(bytes)).within(index_path(shard)));
  if (index.shard().stored_bytes != shard_bytes) {
    return make_error(Code::kCorrupt, "{} is stale: it was made for {} bytes, the shard has {}",
                      index_path(shard), index.shard().stored_bytes, shard_bytes)
        .with_hint("make it again: millrace tar index " + shard);
  }
  return index;
}

}  // namespace millrace::shard
