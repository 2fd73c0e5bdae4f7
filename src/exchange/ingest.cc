// Reads shards and directories, and cuts their samples into segments.
#include "exchange/ingest.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/crc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "decode/label.h"
#include "exchange/ledger.h"
#include "exchange/sample_store.h"
#include "loader/catalogue.h"
#include "net/url.h"
#include "shard/input.h"
#include "shard/recipe.h"
#include "tar/sample.h"

namespace millrace::exchange {

namespace {

class ShardSource final : public IngestSource {
 public:
  ShardSource(std::shared_ptr<const loader::Catalogue> catalogue, Progress* progress)
      : catalogue_(std::move(catalogue)), progress_(progress) {}

  const std::vector<uint64_t>& per_shard() const override { return catalogue_->samples_per_shard(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  uint64_t fingerprint() const override { return catalogue_->identity(); }
  uint64_t passed_over() const override { return 0; }

  Status read(const Wanted& wanted, const Take& take) override {
    uint64_t first = 0;
    for (const loader::Shard& shard : catalogue_->shards()) {
      const uint64_t count = shard.samples();
      std::vector<uint64_t> ordinals;
      for (uint64_t i = 0; i < count; ++i) {
        if (wanted(first + i)) ordinals.push_back(i);
      }
      const bool mapped = !net::is_url(shard.name()) && shard.index->compression() == tar::Compression::kNone;
      if (!ordinals.empty())
        MR_TRY((mapped ? read_mapped(shard, ordinals, first, take) : stream(shard, ordinals, first, take)));
      first += count;
    }
    return {};
  }

 private:
  Status give(const tar::Sample& sample, uint64_t number, const Take& take) const {
    std::vector<shard::NewField> fields;
    for (const tar::Field& field : sample.fields) fields.push_back({field.field, field.bytes});
    if (progress_ != nullptr) progress_->add(sample.blocks.size(), 1);
    return take({number, sample.key, fields});
  }

  Status read_mapped(const loader::Shard& shard, const std::vector<uint64_t>& ordinals, uint64_t first,
                     const Take& take) const {
    const MappedFile file = MR_TRY(MappedFile::open(shard.name()));
    tar::SampleParser parser(shard.index->key_rule());
    for (const uint64_t ordinal : ordinals) {
      const tar::Index::Range range = shard.range(ordinal);
      if (range.offset > file.bytes().size() || range.size > file.bytes().size() - range.offset)
        return make_error(Code::kCorrupt, "{} is shorter than its index says", shard.name());
      const tar::Sample* sample =
          MR_TRY(parser.parse(file.bytes().substr(range.offset, range.size)).within(shard.name()));
      MR_TRY(give(*sample, first + ordinal, take));
    }
    return {};
  }

  // From the first byte to the last that is wanted: what lies in a store or is compressed has no other way.
  Status stream(const loader::Shard& shard, const std::vector<uint64_t>& ordinals, uint64_t first,
                const Take& take) const {
    shard::InputOptions options;
    options.stores = &catalogue_->stores();
    const auto input = MR_TRY(shard::ShardInput::open(shard.name(), options));
    size_t next = 0;
    while (next < ordinals.size()) {
      const tar::Sample* sample = MR_TRY(input->samples().next());
      if (sample == nullptr)
        return make_error(Code::kCorrupt, "{} has fewer samples than its index says", shard.name());
      if (sample->ordinal != ordinals[next]) continue;
      MR_TRY(give(*sample, first + ordinals[next++], take));
    }
    return {};
  }

  const std::shared_ptr<const loader::Catalogue> catalogue_;
  Progress* const progress_;
  const std::vector<std::string> classes_;
};

class FolderSource final : public IngestSource {
 public:
  FolderSource(shard::RecipeBook book, std::vector<std::string> classes)
      : book_(std::move(book)), classes_(std::move(classes)), per_shard_{book_.samples.size()} {}

  const std::vector<uint64_t>& per_shard() const override { return per_shard_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  uint64_t passed_over() const override { return book_.loose_files; }

  // A stat for every file would be felt on a file system of many clients.
  uint64_t fingerprint() const override {
    constexpr uint64_t kMeasured = 256;
    const uint64_t step = book_.samples.size() / kMeasured + 1;
    Hasher hasher;
    for (uint64_t number = 0; number < book_.samples.size(); ++number) {
      for (const shard::FieldRecipe& field : book_.samples[number].fields) {
        if (field.kind != shard::FieldRecipe::Kind::kFile) continue;
        hasher.add(field.text);
        std::error_code unknown;
        if (number % step == 0)
          hasher.add(fmt::format("\n{}", std::filesystem::file_size(book_.root + "/" + field.text, unknown)));
        hasher.add("\n");
      }
    }
    return hasher.value();
  }

  Status read(const Wanted& wanted, const Take& take) override {
    for (uint64_t number = 0; number < book_.samples.size(); ++number) {
      if (!wanted(number)) continue;
      const shard::SampleRecipe& recipe = book_.samples[number];
      std::vector<std::string> bodies;
      for (const shard::FieldRecipe& field : recipe.fields) {
        bodies.push_back(field.kind == shard::FieldRecipe::Kind::kLiteral
                             ? field.text
                             : MR_TRY(read_file(book_.root + "/" + field.text, kMaxSampleBytes)));
      }
      std::vector<shard::NewField> fields;
      for (size_t i = 0; i < bodies.size(); ++i) fields.push_back({recipe.fields[i].field, bodies[i]});
      MR_TRY(take({number, recipe.key, fields}));
    }
    return {};
  }

 private:
  static constexpr uint64_t kMaxSampleBytes = uint64_t{4} << 30;

  const shard::RecipeBook book_;
  const std::vector<std::string> classes_;
  const std::vector<uint64_t> per_shard_;
};

// Files of one name and several extensions are as many samples, and each has one name and one extension.
shard::RecipeBook one_file_each(shard::RecipeBook book, const std::vector<std::string>& extensions) {
  std::vector<shard::SampleRecipe> files;
  for (shard::SampleRecipe& sample : book.samples) {
    std::string key = sample.key;
    std::replace(key.begin() + static_cast<ptrdiff_t>(key.rfind('/') + 1), key.end(), '.', '_');
    for (shard::FieldRecipe& field : sample.fields) {
      if (extensions.empty() || std::ranges::find(extensions, field.field) != extensions.end()) {
        files.push_back({key, {std::move(field)}});
      } else {
        ++book.loose_files;
      }
    }
  }
  book.samples = std::move(files);
  return book;
}

// The segments of one rank, one after the other.
class StoreBuilder {
 public:
  StoreBuilder(std::string directory, uint64_t segment_bytes)
      : directory_(std::move(directory)), segment_bytes_(segment_bytes) {}

  Status add(Record record, std::string_view key, std::span<const shard::NewField> fields) {
    if (current_ && current_->tar_bytes() >= segment_bytes_) MR_TRY(close());
    const auto number = static_cast<uint32_t>(manifest_.segments.size());
    if (!current_) current_ = MR_TRY(shard::ShardFile::create(directory_ + "/" + segment_name(number), {}));
    record.segment = number;
    record.ordinal = static_cast<uint32_t>(current_->samples());
    record.offset = current_->tar_bytes();
    MR_TRY(current_->add(fmt::format("{:010}/{}", record.id, key), fields));
    record.bytes = current_->tar_bytes() - record.offset;
    manifest_.records.push_back(record);
    return {};
  }

  Result<Manifest> finish() {
    if (current_) MR_TRY(close());
    return std::move(manifest_);
  }

 private:
  Status close() {
    const shard::ShardSummary summary = MR_TRY(current_->finish());
    current_.reset();
    const MappedFile file = MR_TRY(MappedFile::open(summary.path));
    for (; checked_ < manifest_.records.size(); ++checked_) {
      Record& record = manifest_.records[checked_];
      record.crc = crc32c(file.bytes().substr(record.offset, record.bytes));
    }
    manifest_.segments.push_back({static_cast<uint32_t>(manifest_.segments.size()),
                                  static_cast<uint32_t>(summary.samples), summary.stored_bytes});
    return {};
  }

  const std::string directory_;
  const uint64_t segment_bytes_;
  std::unique_ptr<shard::ShardFile> current_;
  Manifest manifest_;
  size_t checked_ = 0;  // records that have their checksum
};

// A class's number, or the label's own; nothing where the sample has no such field.
Result<uint32_t> label_of(const IngestSource::Sample& sample, const IngestOptions& options,
                          const std::map<std::string, uint32_t, std::less<>>& classes) {
  for (const shard::NewField& field : sample.fields) {
    if (field.field != options.label_field) continue;
    const std::string_view text = trim(field.bytes, " \t\r\n");
    const auto known = classes.find(text);
    if (known != classes.end()) return known->second;
    const auto number = decode::parse_label(text);
    if (number && *number >= 0 && *number < kMaxClasses) return static_cast<uint32_t>(*number);
    return make_error(Code::kInvalid, "sample \"{}\": \"{}\" is neither a class nor a number below {}",
                      printable(sample.key), printable(text, 40), kMaxClasses)
        .with_hint("give the classes, one a line, with --classes FILE");
  }
  return kNoLabel;
}

Status make_directories(const std::string& directory) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) return make_system_error(failure.value(), "making " + directory);
  if (file_exists(directory + "/" + std::string(kCurrentName))) {
    return make_error(Code::kExists, "{}: there is a sample store already", directory)
        .with_hint("remove it first, or take another directory");
  }
  return {};
}

}  // namespace

uint64_t IngestSource::samples() const {
  return std::accumulate(per_shard().begin(), per_shard().end(), uint64_t{0});
}

Result<std::unique_ptr<IngestSource>> open_shards(std::vector<std::string> names, transfer::Stores& stores,
                                                  Progress* progress) {
  loader::CatalogueOptions options;
  options.names = std::move(names);
  auto catalogue = MR_TRY(loader::Catalogue::open(stores, std::move(options)));
  return std::unique_ptr<IngestSource>(new ShardSource(std::move(catalogue), progress));
}

Result<std::unique_ptr<IngestSource>> open_folder(const std::string& directory, FolderOptions options) {
  shard::RecipeBook book = MR_TRY(shard::recipes_of_directory(directory, tar::KeyRule::kLastDot));
  book = one_file_each(std::move(book), options.extensions);
  if (book.samples.empty()) {
    return make_error(Code::kInvalid, "{}: there are no samples", directory)
        .with_hint(
            fmt::format("every class is a directory of files with an extension: {}/cat/1.jpg", directory));
  }
  MR_TRY(shard::add_classes(book, options.classes));
  return std::unique_ptr<IngestSource>(new FolderSource(std::move(book), std::move(options.classes)));
}

namespace {

struct ClassLine {
  std::string_view name;
  std::optional<int64_t> number;
};

std::optional<int64_t> number_in(std::string_view text) {
  const auto number = decode::parse_label(trim(text));
  return number ? std::optional<int64_t>(*number) : std::nullopt;
}

// "name<separator>number<separator>…"; without a number the whole of the first column is the name.
ClassLine split_at_tab(std::string_view line) {
  const size_t tab = std::min(line.find('\t'), line.size());
  const std::string_view rest = line.substr(std::min(tab + 1, line.size()));
  return {line.substr(0, tab), number_in(rest.substr(0, rest.find('\t')))};
}

ClassLine split_at_last_blank(std::string_view line) {
  const size_t blank = std::min(line.find_last_of(' '), line.size());
  return {trim(line.substr(0, blank)), number_in(line.substr(blank))};
}

// Columns are parted by tabs. Where there are none, a number behind a blank on every line is the second
// column, unless the lines differ in nothing else: names may have blanks and end with numbers.
std::vector<ClassLine> split_classes(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trim(text.substr(at, end - at), " \r");
    at = end + 1;
    if (!line.empty() && line.front() != '\t') lines.push_back(line);
  }
  std::vector<ClassLine> classes;
  if (text.find('\t') == std::string_view::npos) {
    std::set<std::string_view> names;
    for (const std::string_view line : lines) {
      classes.push_back(split_at_last_blank(line));
      names.insert(classes.back().name);
    }
    const bool numbered =
        std::ranges::all_of(classes, [](const ClassLine& one) { return one.number && !one.name.empty(); });
    if (numbered && names.size() == classes.size()) return classes;
    classes.clear();
  }
  for (const std::string_view line : lines) classes.push_back(split_at_tab(line));
  return classes;
}

}  // namespace

Result<std::vector<std::string>> read_classes(const std::string& path, ClassOrder order) {
  constexpr uint64_t kMost = 64 << 20;
  const std::string text = MR_TRY(read_file(path, kMost));
  std::vector<std::string> names;
  std::vector<int64_t> numbers;
  std::set<std::string> known;
  for (const ClassLine& line : split_classes(text)) {
    names.emplace_back(line.name);
    if (line.number) numbers.push_back(*line.number);
    if (!known.insert(names.back()).second)
      return make_error(Code::kInvalid, "{}: class \"{}\" is there twice", path, printable(names.back()));
  }
  if (names.empty()) return make_error(Code::kInvalid, "{}: there are no classes", path);
  if (numbers.size() < names.size()) {
    if (order == ClassOrder::kByName) std::ranges::sort(names);
    return names;
  }
  std::vector<std::string> by_number(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const int64_t number = numbers[i];
    if (number < 0 || std::cmp_greater_equal(number, names.size()) || !by_number[number].empty()) {
      return make_error(Code::kInvalid, "{}: class \"{}\" has the number {}", path, printable(names[i]),
                        number)
          .with_hint(fmt::format("the numbers of {} classes are 0 to {}, each once", names.size(),
                                 names.size() - 1));
    }
    by_number[number] = names[i];
  }
  return by_number;
}

Result<std::vector<Manifest>> ingest(IngestSource& source, const std::string& root,
                                     const IngestOptions& options) {
  if (source.samples() == 0) return make_error(Code::kInvalid, "there are no samples to take in");
  Deal deal = options.deal;
  if (!options.sharers.empty()) deal.ranks = static_cast<uint32_t>(options.sharers.size());
  std::vector<uint32_t> owners = deal_samples(deal, source.per_shard());
  if (!options.sharers.empty())
    for (uint32_t& owner : owners) owner = options.sharers[owner];
  std::map<uint32_t, StoreBuilder> builders;
  for (const uint32_t rank : options.ranks) {
    MR_TRY(make_directories(rank_directory(root, rank)));
    builders.try_emplace(rank, rank_directory(root, rank), options.segment_bytes);
  }
  std::map<std::string, uint32_t, std::less<>> classes;
  for (uint32_t i = 0; i < options.classes.size(); ++i) classes[options.classes[i]] = i;
  MR_TRY(source.read([&](uint64_t number) { return builders.contains(owners[number]); },
                     [&](const IngestSource::Sample& sample) -> Status {
                       Record record;
                       record.id = options.first_id + sample.number;
                       record.label = MR_TRY(label_of(sample, options, classes));
                       record.home = owners[sample.number];
                       return builders.at(record.home).add(record, sample.key, sample.fields);
                     }));
  std::vector<Manifest> manifests;
  for (auto& [rank, builder] : builders) {
    Manifest manifest = MR_TRY(builder.finish());
    manifest.rank = rank;
    manifest.world = options.deal.ranks;
    manifest.samples = options.all > 0 ? options.all : source.samples();
    const std::vector<std::string>& names = options.classes.empty() ? source.classes() : options.classes;
    for (const std::string& name : names) manifest.class_names += name + "\n";
    manifest.classes = static_cast<uint32_t>(names.size());
    for (const Record& record : manifest.records) {
      if (record.label != kNoLabel) manifest.classes = std::max(manifest.classes, record.label + 1);
    }
    manifests.push_back(std::move(manifest));
  }
  return manifests;
}

Status finish_ingest(const std::string& root, std::vector<Manifest> manifests, uint32_t classes) {
  for (Manifest& manifest : manifests) {
    manifest.classes = std::max(manifest.classes, classes);
    MR_TRY(Ledger::create(rank_directory(root, manifest.rank), manifest));
  }
  return {};
}

}  // namespace millrace::exchange
