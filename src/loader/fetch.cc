// Implements Fetcher: reads stretches of shards into chunks.
#include "loader/fetch.h"

#include <fcntl.h>

#include <algorithm>

#include "base/clock.h"
#include "base/mutex.h"
#include "net/ranged.h"
#include "shard/input.h"

namespace millrace::loader {

namespace {
constexpr size_t kOpenFiles = 64;

Error stopped() {
  return make_error(Code::kCancelled, "the loader was stopped");
}
// Where a shard is elsewhere too, that is better than waiting.
transfer::Settings settings_for(const Catalogue& catalogue) {
  transfer::Settings settings = catalogue.stores().settings();
  for (const Shard& shard : catalogue.shards()) {
    if (shard.sources.size() > 1) settings.patience_ms = 0;
  }
  return settings;
}
}  // namespace

class Stream {
 public:
  // The places where the shard is, best first; the catalogue keeps them.
  Stream(const std::vector<Source>& sources, Fetcher& fetcher) : sources_(sources), fetcher_(fetcher) {}

  struct Wanted {
    Stretch stretch;
    std::shared_ptr<Chunk> chunk;
  };
  void expect(Wanted wanted) {
    const MutexLock lock(queue_mutex_);
    waiting_.push_back(std::move(wanted));
  }
  // Fills the chunk that is next, whichever thread comes.
  void advance(Meters& meters) {
    const MutexLock reading(read_mutex_);
    Wanted wanted;
    {
      const MutexLock lock(queue_mutex_);
      wanted = std::move(waiting_.front());
      waiting_.pop_front();
    }
    const Timer timer(meters.fetch, "fetch", meters.trace);
    auto filled = fill(wanted);
    // Another place begins anew and passes what was read already.
    while (!filled && filled.error().code() != Code::kCancelled && source_ + 1 < sources_.size()) {
      ++source_;
      input_ = nullptr;
      position_ = 0;
      filled = fill(wanted);
    }
    if (!filled) {
      wanted.chunk->fail(filled.take_error());
      return;
    }
    meters.fetch.bytes += wanted.stretch.size;
    wanted.chunk->succeed();
  }

 private:
  Status fill(const Wanted& wanted) MR_REQUIRES(read_mutex_) {
    if (!input_) {
      shard::InputOptions options;
      options.stores = &fetcher_.stores();
      options.heard = [this](const std::string& name, const auto& headers) { fetcher_.heard(name, headers); };
      options.etag = sources_[source_].etag;
      input_ = MR_TRY(shard::ShardInput::open(sources_[source_].name, options));
    }
    tar::ByteSource& bytes = input_->plain();
    while (position_ < wanted.stretch.offset) {
      const uint64_t passed = MR_TRY(bytes.skip(wanted.stretch.offset - position_));
      if (passed == 0) return ended();
      position_ += passed;
    }
    std::span<std::byte> room = wanted.chunk->reserve(wanted.stretch.size);
    while (!room.empty()) {
      const size_t got = MR_TRY(bytes.read_some(room));
      if (got == 0) return ended();
      position_ += got;
      room = room.subspan(got);
    }
    return {};
  }
  Error ended() const MR_REQUIRES(read_mutex_) {
    return make_error(Code::kTruncated, "{}: ends at byte {} of the tar, before its index says so",
                      sources_[source_].name, position_);
  }

  const std::vector<Source>& sources_;
  Fetcher& fetcher_;
  Mutex queue_mutex_;
  std::deque<Wanted> waiting_ MR_GUARDED_BY(queue_mutex_);
  Mutex read_mutex_;
  std::unique_ptr<shard::ShardInput> input_ MR_GUARDED_BY(read_mutex_);
  uint64_t position_ MR_GUARDED_BY(read_mutex_) = 0;
  size_t source_ MR_GUARDED_BY(read_mutex_) = 0;  // which of them is read
};

Fetcher::Fetcher(const Catalogue& catalogue, unsigned threads, BlockCache* cache, Meters& meters)
    : catalogue_(catalogue),
      lifeline_(std::make_shared<net::Lifeline>()),
      stores_(settings_for(catalogue), lifeline_),
      hints_(catalogue, stores_),
      cache_(cache),
      meters_(meters) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Fetcher::~Fetcher() {
  stop();
}

void Fetcher::submit(std::function<void()> job, std::shared_ptr<Chunk> chunk) {
  {
    const MutexLock lock(mutex_);
    if (!stopped_) {
      jobs_.push_back({std::move(job), std::move(chunk)});
      chunk = nullptr;
    }
  }
  if (chunk) chunk->fail(stopped());
  filled_.notify_one();
}

void Fetcher::fetch(const Stretch& stretch, std::shared_ptr<Chunk> into) {
  into->expect(stretch.size);
  submit(
      [this, stretch, into] {
        auto filled = fill(stretch, *into);
        if (filled) {
          into->succeed();
        } else {
          into->fail(filled.take_error());
        }
      },
      into);
}

std::shared_ptr<Stream> Fetcher::open_stream(uint32_t shard) {
  return std::make_shared<Stream>(catalogue_.shards()[shard].sources, *this);
}

void Fetcher::fetch(const std::shared_ptr<Stream>& stream, const Stretch& stretch,
                    std::shared_ptr<Chunk> into) {
  into->expect(stretch.size);
  stream->expect({stretch, into});
  submit([this, stream] { stream->advance(meters_); }, std::move(into));
}

void Fetcher::stop() {
  std::deque<Job> left;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    left.swap(jobs_);
  }
  filled_.notify_all();
  lifeline_->cut();
  hints_.stop();
  for (const Job& job : left) job.chunk->fail(stopped());
  threads_.clear();  // joins: a second caller must come after
}

void Fetcher::run() {
  meters_.name_thread("fetch");
  while (true) {
    Job job;
    {
      UniqueLock lock(mutex_);
      filled_.wait(lock, [&]() MR_REQUIRES(mutex_) { return stopped_ || !jobs_.empty(); });
      if (stopped_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job.work();
  }
}

Status Fetcher::fill(const Stretch& stretch, Chunk& chunk) {
  const Timer timer(meters_.fetch, "fetch", meters_.trace);
  const Shard& shard = catalogue_.shards()[stretch.shard];
  std::span<std::byte> into;
  try {
    into = chunk.reserve(stretch.size);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
  meters_.fetch.bytes += stretch.size;
  std::optional<Error> failure;
  for (const Source& source : shard.sources) {
    auto filled = fill_from(source, stretch, into);
    if (filled) return {};
    if (!failure) failure = filled.take_error();
  }
  return std::move(*failure).within(fmt::format("fetching bytes {} to {} of {}", stretch.offset,
                                                stretch.offset + stretch.size, shard.name()));
}

void Fetcher::heard(const std::string& name, const std::vector<net::HeaderField>& headers) {
  const auto location = stores_.find(name);
  if (location) hints_.heard(*location, headers);
}

Status Fetcher::fill_from(const Source& source, const Stretch& stretch, std::span<std::byte> into) {
  if (!source.location) return fill_from_file(source, stretch, into);
  const transfer::Location location = MR_TRY(stores_.find(source.name));
  const auto request = [&](std::span<std::byte> room) -> Status {
    const auto reader = MR_TRY(net::RangedReader::open(location.store->client(), location.url,
                                                       {{stretch.offset, stretch.size}, source.etag, {}}));
    hints_.heard(location, reader->headers());
    const uint64_t wanted = catalogue_.shards()[stretch.shard].index->shard().stored_bytes;
    if (reader->object_size().value_or(wanted) != wanted) {
      return make_error(Code::kCorrupt, "{} holds another shard: {} bytes, not {}", source.name,
                        *reader->object_size(), wanted);
    }
    while (!room.empty()) {
      const size_t got = MR_TRY(reader->read_some(room));
      if (got == 0)
        return make_error(Code::kTruncated, "{} ends at byte {}", source.name, reader->position());
      room = room.subspan(got);
    }
    return {};
  };
  if (cache_ == nullptr || source.etag.empty()) return request(into);
  return cache_->get({source.name + " " + source.etag, stretch.offset, stretch.size}, into,
                     {request, *lifeline_});
}

Status Fetcher::fill_from_file(const Source& source, const Stretch& stretch, std::span<std::byte> into) {
  const std::shared_ptr<File> file = MR_TRY(open_file(source.name));
  const size_t got = MR_TRY(file->read_at(stretch.offset, into));
  if (got < into.size())
    return make_error(Code::kTruncated, "{} ends at byte {}: it was cut since it was indexed", source.name,
                      stretch.offset + got);
  return {};
}

Result<std::shared_ptr<File>> Fetcher::open_file(const std::string& path) {
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, file] : open_files_) {
      if (name == path) return file;
    }
  }
  auto file = std::make_shared<File>(MR_TRY(File::open_read(path)));
  const MutexLock lock(mutex_);
  open_files_.emplace_front(path, file);
  if (open_files_.size() > kOpenFiles) open_files_.pop_back();
  return file;
}

}  // namespace millrace::loader
