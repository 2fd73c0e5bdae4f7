// Implements Catalogue: finds an index for every shard, many at a time.
#include "loader/catalogue.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <unordered_map>

#include "base/file.h"
#include "base/file_stamp.h"
#include "base/hash.h"
#include "base/threads.h"
#include "net/url.h"
#include "shard/command.h"
#include "shard/index_file.h"
#include "shard/input.h"
#include "transfer/objects.h"

namespace millrace::loader {

namespace {

constexpr unsigned kOpenAtATime = 16;

struct Opened {
  Shard shard;
  IndexOrigin origin = IndexOrigin::kBuilt;
};

std::string default_cache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/millrace/indexes";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "/tmp") + "/.cache/millrace/indexes";
}

Result<tar::Index> take_index(std::string bytes, uint64_t stored_bytes, const std::string& name) {
  tar::Index index = MR_TRY(tar::Index::parse(std::move(bytes)).within(name));
  if (index.shard().stored_bytes != stored_bytes) {
    return make_error(Code::kCorrupt, "{}: the index was made for {} bytes, the shard has {}", name,
                      index.shard().stored_bytes, stored_bytes);
  }
  return index;
}

Error needs_index() {
  return make_error(Code::kInvalid,
                    "a data set that is streamed has no index to choose, mix, join or find by");
}

// One shard's search for its index.
class Opening {
 public:
  Opening(transfer::Stores& stores, const CatalogueOptions& options) : stores_(stores), options_(options) {}

  Result<Opened> open(size_t number) const {
    Opened opened;
    opened.shard.sources.push_back({options_.names[number], std::nullopt, ""});
    for (const auto& mirror : options_.mirrors)
      opened.shard.sources.push_back({mirror[number], std::nullopt, ""});
    for (Source& source : opened.shard.sources) {
      if (net::is_url(source.name)) source.location = MR_TRY(stores_.find(source.name));
    }
    if (!options_.indexed) return opened;
    std::optional<Error> failure;
    auto& sources = opened.shard.sources;
    for (auto source = sources.begin(); source != sources.end(); ++source) {
      auto index =
          source->location ? find_remote(*source, opened.origin) : find_local(*source, opened.origin);
      if (!index) {
        if (!failure) failure = index.take_error();
        continue;
      }
      opened.shard.index = std::make_shared<const tar::Index>(index.take());
      std::rotate(sources.begin(), source, source + 1);  // what answers is asked first
      return opened;
    }
    return std::move(*failure);
  }

 private:
  Result<tar::Index> find_local(const Source& source, IndexOrigin& origin) const {
    auto beside = shard::load_index(source.name);
    if (beside && beside->key_rule() == options_.key_rule) {
      origin = IndexOrigin::kSidecar;
      return beside;
    }
    const uint64_t size = MR_TRY(file_size(source.name));
    return from_cache_or_shard(source.name, file_stamp(source.name), size, origin);
  }

  Result<tar::Index> find_remote(Source& source, IndexOrigin& origin) const {
    const transfer::ObjectHead head = MR_TRY(transfer::get_head(*source.location));
    source.etag = head.etag;
    if (!head.size)
      return make_error(Code::kUnsupported, "{}: the server does not say its length", source.name);
    for (const auto& [name, value] : head.headers) {
      if (name != "x-millrace-index" || value != "ready") continue;
      auto index = fetch_index(source, source.location->url, "index", *head.size);
      // One of another version, say of an older store, or rule is made anew like one that is not there.
      const bool is_other =
          index ? index->key_rule() != options_.key_rule : index.error().code() == Code::kUnsupported;
      if (is_other) break;
      if (index) origin = IndexOrigin::kStore;
      return index;
    }
    net::Url beside = source.location->url;
    beside.path += tar::kIndexSuffix;
    auto index = fetch_index(source, beside, "", *head.size);
    if (index && index->key_rule() == options_.key_rule) {
      origin = IndexOrigin::kSidecar;
      return index;
    }
    return from_cache_or_shard(source.name, head.etag, *head.size, origin);
  }

  Result<tar::Index> fetch_index(const Source& source, net::Url url, const std::string& query,
                                 uint64_t stored_bytes) const {
    if (!query.empty()) url.query = query;
    net::Request request;
    request.url = std::move(url);
    auto response = MR_TRY(source.location->store->client().call(request));
    std::string bytes = MR_TRY(response.read_all(shard::kMaxIndexBytes));
    return take_index(std::move(bytes), stored_bytes, source.name);
  }

  Result<tar::Index> from_cache_or_shard(const std::string& name, const std::string& version, uint64_t size,
                                         IndexOrigin& origin) const {
    const std::string directory = options_.index_cache.empty() ? default_cache() : options_.index_cache;
    const std::string path =
        fmt::format("{}/{:016x}{:016x}.mri", directory,
                    hash64(name, static_cast<uint64_t>(options_.key_rule)), hash64(version, size));
    if (!version.empty()) {
      if (auto kept = read_file(path, shard::kMaxIndexBytes)) {
        auto index = take_index(kept.take(), size, path);
        origin = IndexOrigin::kCache;
        if (index) return index;
      }
    }
    shard::InputOptions input;
    input.read.group.key_rule = options_.key_rule;
    input.progress = options_.progress;
    input.stores = &stores_;
    std::string bytes = MR_TRY(shard::build_index(name, input));
    origin = IndexOrigin::kBuilt;
    // A cache that cannot be written costs the next run some time, this one nothing.
    std::error_code ignored;
    std::filesystem::create_directories(directory, ignored);
    if (!version.empty()) static_cast<void>(write_file_atomically(path, bytes));
    return take_index(std::move(bytes), size, name);
  }

  transfer::Stores& stores_;
  const CatalogueOptions& options_;
};

}  // namespace

Result<std::shared_ptr<const Catalogue>> Catalogue::open(transfer::Stores& stores, CatalogueOptions options) {
  if (options.names.empty()) return make_error(Code::kInvalid, "the data set names no shard");
  for (const std::string& name : options.names) {
    if (!options.indexed || (name != shard::kStandardStream && !shard::is_pipe(name))) continue;
    return make_error(Code::kInvalid, "{} can be read only once, forwards: it has no index", name)
        .with_hint("stream it: indexed=False in Python, --stream on the command line");
  }
  for (const auto& mirror : options.mirrors) {
    if (mirror.size() == options.names.size()) continue;
    return make_error(Code::kInvalid, "a mirror names {} shards, the data set {}", mirror.size(),
                      options.names.size());
  }
  const Opening opening(stores, options);
  std::vector<Opened> opened(options.names.size());
  MR_TRY(run_each(opened.size(), kOpenAtATime, [&](size_t i) -> Status {
    auto shard = opening.open(i);
    if (!shard) return shard.take_error().in_shard(options.names[i]);
    opened[i] = shard.take();
    return {};
  }));

  std::shared_ptr<Catalogue> catalogue(new Catalogue(stores));
  catalogue->key_rule_ = options.key_rule;
  for (Opened& one : opened) {
    ++catalogue->origins_[static_cast<size_t>(one.origin)];
    catalogue->shards_.push_back(std::move(one.shard));
  }
  catalogue->parts_ = {0, catalogue->shards_.size()};
  catalogue->count();
  if (catalogue->samples_ == 0 && options.indexed)
    return make_error(Code::kInvalid, "the data set has no samples");
  return std::shared_ptr<const Catalogue>(std::move(catalogue));
}

void Catalogue::count() {
  Hasher identity;
  for (const Shard& shard : std::span(shards_).first(parts_.back())) {
    samples_per_shard_.push_back(shard.samples());
    samples_ += shard.samples();
    is_local_ = is_local_ && !shard.sources.front().location;
    if (!shard.index) {
      identity.add(shard.name() + " ");
      continue;
    }
    bytes_ += shard.index->tar_bytes() / std::max<uint64_t>(shard.index->samples(), 1) * shard.samples();
    const uint64_t facts[] = {shard.index->shard().content_hash, shard.samples()};
    identity.add({reinterpret_cast<const char*>(facts), sizeof facts});
    if (shard.picked)
      identity.add(
          {reinterpret_cast<const char*>(shard.picked->data()), shard.picked->size() * sizeof(uint32_t)});
  }
  identity_ = identity.value();
}

std::string Catalogue::place_of(SampleRef sample) const {
  const Shard& shard = shards_[sample.shard];
  if (!shard.index) return fmt::format("{}: sample {} of the stream", shard.name(), sample.ordinal);
  return fmt::format("{}: sample {} at byte {}", shard.name(), shard.ordinal(sample.ordinal),
                     shard.range(sample.ordinal).offset);
}

Result<std::shared_ptr<const Catalogue>> Catalogue::select(const std::vector<uint64_t>& numbers) const {
  if (!is_indexed()) return needs_index();
  std::shared_ptr<Catalogue> chosen(new Catalogue(stores_));
  chosen->parts_ = parts_;
  size_t next = 0;
  uint64_t start = 0;
  if (!columns_.empty()) return make_error(Code::kInvalid, "choose samples before joining columns");
  for (const Shard& shard : shards_) {
    std::vector<uint32_t> picked;
    for (; next < numbers.size() && numbers[next] < start + shard.samples(); ++next) {
      if (numbers[next] < start || (next > 0 && numbers[next] <= numbers[next - 1]))
        return make_error(Code::kInvalid, "the numbers of chosen samples must rise: {} does not",
                          numbers[next]);
      picked.push_back(static_cast<uint32_t>(shard.ordinal(numbers[next] - start)));
    }
    start += shard.samples();
    chosen->shards_.push_back(shard);
    chosen->shards_.back().picked = std::make_shared<const std::vector<uint32_t>>(std::move(picked));
  }
  if (next < numbers.size())
    return make_error(Code::kInvalid, "there is no sample {}: the data set has {}", numbers[next], start);
  chosen->count();
  if (chosen->samples_ == 0) return make_error(Code::kInvalid, "no sample was chosen");
  return std::shared_ptr<const Catalogue>(std::move(chosen));
}

Result<std::shared_ptr<const Catalogue>> Catalogue::select_with(
    const std::vector<std::string>& any_of) const {
  if (!is_indexed()) return needs_index();
  std::vector<uint64_t> numbers;
  uint64_t start = 0;
  for (const Shard& shard : shards_) {
    for (uint64_t sample = 0; sample < shard.samples(); ++sample) {
      for (const std::string& field : any_of) {
        if (!shard.index->find_field(shard.ordinal(sample), field)) continue;
        numbers.push_back(start + sample);
        break;
      }
    }
    start += shard.samples();
  }
  return select(numbers);
}

Result<std::shared_ptr<const Catalogue>> Catalogue::join(
    const std::vector<std::shared_ptr<const Catalogue>>& parts) {
  if (parts.empty()) return make_error(Code::kInvalid, "there is nothing to join");
  std::shared_ptr<Catalogue> joined(new Catalogue(parts.front()->stores_));
  joined->parts_ = {0};
  for (const auto& part : parts) {
    if (!part->is_indexed()) return needs_index();
    if (!part->columns_.empty()) return make_error(Code::kInvalid, "mix data sets before joining columns");
    joined->shards_.insert(joined->shards_.end(), part->shards_.begin(), part->shards_.end());
    joined->parts_.push_back(joined->shards_.size());
  }
  joined->count();
  return std::shared_ptr<const Catalogue>(std::move(joined));
}

Result<std::shared_ptr<const Catalogue>> Catalogue::with_columns(const Catalogue& other) const {
  if (!is_indexed()) return needs_index();
  const size_t shards = parts_.back();
  if (other.shards_.size() != shards) {
    return make_error(Code::kInvalid, "{} shards cannot lend columns to {}: there must be one for each",
                      other.shards_.size(), shards);
  }
  std::shared_ptr<Catalogue> joined(new Catalogue(stores_));
  joined->shards_ = shards_;
  joined->parts_ = parts_;
  joined->columns_ = columns_;
  Columns columns;
  columns.first_shard = static_cast<uint32_t>(shards_.size());
  for (size_t i = 0; i < shards; ++i) {
    const Shard& here = shards_[i];
    const Shard& there = other.shards_[i];
    std::unordered_map<uint64_t, uint32_t> found;
    for (uint64_t sample = 0; sample < there.samples(); ++sample)
      found.emplace(there.key_hash(sample), static_cast<uint32_t>(sample));
    std::vector<uint32_t>& ordinals = columns.ordinals.emplace_back();
    for (uint64_t sample = 0; sample < here.samples(); ++sample) {
      const auto match = found.find(here.key_hash(sample));
      if (match == found.end()) {
        return make_error(Code::kNotFound, "{}: sample {} has no sample of the same key in {}", here.name(),
                          here.ordinal(sample), there.name());
      }
      ordinals.push_back(match->second);
    }
    joined->shards_.push_back(there);
  }
  joined->columns_.push_back(std::move(columns));
  joined->count();
  joined->identity_ = hash64(fmt::format("{} {}", joined->identity_, other.identity_));
  return std::shared_ptr<const Catalogue>(std::move(joined));
}

std::vector<SampleRef> Catalogue::columns_of(SampleRef sample) const {
  std::vector<SampleRef> found;
  for (const Columns& columns : columns_)
    found.push_back({columns.first_shard + sample.shard, columns.ordinals[sample.shard][sample.ordinal]});
  return found;
}

}  // namespace millrace::loader
