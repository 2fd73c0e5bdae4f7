// Implements ShardFile: writes samples to a durable shard with its index.
#include "shard/output.h"

#include <fcntl.h>

#include <algorithm>
#include <set>

#include "base/crc.h"
#include "base/text.h"
#include "net/url.h"
#include "shard/input.h"

namespace millrace::shard {

namespace {
constexpr size_t kGatherBytes = 1 << 20;
// From here on a copy costs more than a system call.
constexpr size_t kWorthWriting = 64 << 10;
constexpr uint64_t kWritebackStep = 16 << 20;

// A name that promises what we do not write.
Status check_output_name(std::string_view path) {
  for (const std::string_view ending : {".bz2", ".tbz2", ".xz", ".txz", ".lz4", ".zip", ".7z"}) {
    if (path.ends_with(ending)) {
      return make_error(Code::kUnsupported, "{}: writing {} files is not supported", path, ending)
          .with_hint("write .tar, .tar.gz or .tar.zst, or say --compress none");
    }
  }
  return {};
}
}  // namespace

ShardFile::Sink::Sink(ShardFile& shard) : shard_(shard) {
  gathered_.reserve(kGatherBytes);
}

Status ShardFile::Sink::write(std::string_view first, std::string_view second) {
  hasher_.add(first);
  hasher_.add(second);
  bytes_ += first.size() + second.size();
  MR_TRY(gather(first));
  return gather(second);
}

Status ShardFile::Sink::gather(std::string_view bytes) {
  if (bytes.size() >= kWorthWriting || gathered_.size() + bytes.size() > kGatherBytes)
    return flush_with(bytes);
  gathered_ += bytes;
  return {};
}

Status ShardFile::Sink::flush_with(std::string_view more) {
  MR_TRY(shard_.write_stored(gathered_, more));
  written_ += gathered_.size() + more.size();
  gathered_.clear();
  // Writing to the drive starts now, not at the fsync: that then finds little left to do.
  if (shard_.atomic_ && written_ - started_writeback_ >= kWritebackStep) {
    ::sync_file_range(shard_.file().descriptor(), static_cast<off64_t>(started_writeback_),
                      static_cast<off64_t>(written_ - started_writeback_), SYNC_FILE_RANGE_WRITE);
    started_writeback_ = written_;
  }
  return {};
}

Status ShardFile::Sink::finish() {
  return flush_with({});
}

Result<std::unique_ptr<ShardFile>> ShardFile::create(const std::string& path, const OutputOptions& options) {
  if (!options.compression) MR_TRY(check_output_name(path));
  const std::optional<FileIdentity> existing = find_identity(path);
  if ((existing && std::ranges::find(options.inputs, *existing) != options.inputs.end()) ||
      std::ranges::find(options.input_names, path) != options.input_names.end()) {
    return make_error(Code::kInvalid, "{} is also an input: it would be lost", path)
        .with_hint("write to another name");
  }
  std::unique_ptr<ShardFile> shard(new ShardFile());
  shard->path_ = path;
  shard->options_ = options;
  shard->compression_ = options.compression.value_or(tar::compression_for_name(path));
  MR_TRY(shard->open());
  shard->sink_ = std::make_unique<Sink>(*shard);
  shard->compressor_ = MR_TRY(tar::make_compressor(shard->compression_, *shard->sink_));
  shard->writer_.emplace(*shard->compressor_);
  return shard;
}

Status ShardFile::open() {
  if (options_.dry_run) {
    options_.index = IndexPolicy::kNone;
    return {};
  }
  if (net::is_url(path_)) {
    if (options_.stores == nullptr)
      return make_error(Code::kInvalid, "{}: addresses cannot be written to here", path_);
    transfer::Location object = MR_TRY(options_.stores->find(path_));
    if (object.bucket.empty() || object.key.empty() || object.key.ends_with('/'))
      return make_error(Code::kInvalid, "{} is not the name of an object", path_);
    upload_ = std::make_unique<transfer::StreamUpload>(std::move(object), options_.put);
    options_.index = IndexPolicy::kNone;
    return {};
  }
  if (path_ == kStandardStream) {
    stream_ = MR_TRY(File::standard_output());
    options_.index = IndexPolicy::kNone;
    return {};
  }
  atomic_ = MR_TRY(AtomicFile::create(path_));
  return {};
}

Status ShardFile::write_stored(std::string_view first, std::string_view second) {
  if (options_.dry_run) return {};
  if (!upload_) return file().write_all(first, second);
  MR_TRY(upload_->write(first));
  return upload_->write(second);
}

Status ShardFile::add(const tar::Sample& sample) {
  const uint64_t start = writer_->offset();
  open_sample(sample.key, sample.key_hash);
  if (sample.copyable) {
    MR_TRY(writer_->copy(sample.blocks));
    for (const tar::Field& field : sample.fields) {
      index_.add_field({field.field, start + (field.data_offset - sample.offset), field.bytes.size(),
                        crc32c(field.bytes)});
    }
  } else {
    for (const tar::Field& field : sample.fields) {
      if (field.blocks.empty()) {
        MR_TRY(check_name(field.name, sample.key, field.field));
        MR_TRY(writer_->add({.name = field.name, .size = field.bytes.size()}, field.bytes));
      } else {
        MR_TRY(writer_->copy(field.blocks));
      }
      index_.add_field({field.field, writer_->offset() - tar::padded(field.bytes.size()), field.bytes.size(),
                        crc32c(field.bytes)});
    }
  }
  end_sample();
  return {};
}

Status ShardFile::add(std::string_view key, std::span<const NewField> fields) {
  MR_TRY(check_new(key, fields));
  const uint64_t key_hash = hash64(key);
  if (!seen_keys_.insert(key, key_hash)) {
    return make_error(Code::kExists, "{}: there is a sample \"{}\" already", path_, printable(key))
        .with_hint("all fields of a sample are written at once, and no two samples of a shard share a key");
  }
  start_sample(key, key_hash);
  for (const NewField& field : fields) {
    MR_TRY(open_field(fmt::format("{}.{}", key, field.field), field.field, field.bytes.size()));
    MR_TRY(field_data(field.bytes));
    MR_TRY(end_field());
  }
  end_sample();
  return {};
}

Status ShardFile::add_loose(std::string_view blocks) {
  return writer_->copy(blocks);
}

void ShardFile::begin_sample(std::string_view key) {
  open_sample(key, hash64(key));
}

void ShardFile::open_sample(std::string_view key, uint64_t key_hash) {
  if (samples_ > 0 && key == sample_key_) {
    ++repeated_keys_;
    return;
  }
  if (!seen_keys_.insert(key, key_hash)) ++repeated_keys_;
  start_sample(key, key_hash);
}

void ShardFile::start_sample(std::string_view key, uint64_t key_hash) {
  sample_key_ = key;
  index_.begin_sample(writer_->offset(), key_hash);
  ++samples_;
}

Status ShardFile::check_name(std::string_view name, std::string_view key, std::string_view field) const {
  const auto split = tar::split_name(name, options_.key_rule);
  if (split && split->key == key && lower_case(split->field) == field && !tar::is_archive_metadata(name))
    return {};
  return make_error(Code::kInvalid,
                    "sample \"{}\" cannot have a field \"{}\": the name {} reads back as something else",
                    printable(key), printable(field), printable(name))
      .with_hint(fmt::format("by the {} rule; keys have no dot in their last part, fields are lower case",
                             tar::key_rule_name(options_.key_rule)));
}

// Before anything of it is written: what is refused leaves the shard as it was.
Status ShardFile::check_new(std::string_view key, std::span<const NewField> fields) const {
  if (fields.empty()) return make_error(Code::kInvalid, "sample \"{}\" has no fields", printable(key));
  std::set<std::string_view> names;
  for (const NewField& field : fields) {
    MR_TRY(check_name(fmt::format("{}.{}", key, field.field), key, field.field));
    if (!names.insert(field.field).second)
      return make_error(Code::kInvalid, "sample \"{}\" has the field \"{}\" twice", printable(key),
                        printable(field.field));
  }
  return {};
}

Status ShardFile::begin_field(std::string_view field, uint64_t size) {
  const std::string name = fmt::format("{}.{}", sample_key_, field);
  MR_TRY(check_name(name, sample_key_, field));
  return open_field(name, field, size);
}

Status ShardFile::open_field(const std::string& name, std::string_view field, uint64_t size) {
  MR_TRY(writer_->begin({.name = name, .size = size}));
  field_name_ = field;
  field_ = {field_name_, writer_->offset(), size, 0};
  return {};
}

Status ShardFile::field_data(std::string_view bytes) {
  field_.crc = crc32c(bytes, field_.crc);
  return writer_->data(bytes);
}

Status ShardFile::end_field() {
  MR_TRY(writer_->end());
  index_.add_field(field_);
  return {};
}

namespace {

// Whoever writes to a name such as x.tar.tmp, or to a temporary file, will rename it: an index would stay
// behind.
bool is_final_name(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return !name.starts_with('.') &&
         (name.ends_with(".tar") || tar::compression_for_name(name) != tar::Compression::kNone);
}

}  // namespace

Result<ShardSummary> ShardFile::finish() {
  MR_TRY(writer_->finish());
  ShardSummary summary{path_, samples_, writer_->offset(), sink_->bytes(), repeated_keys_};
  if (upload_) MR_TRY(upload_->finish());
  if (!atomic_) return summary;
  const std::string index_path = path_ + std::string(tar::kIndexSuffix);
  // An index left from an older shard of this name goes first: no moment shows it beside the new shard.
  MR_TRY(remove_file_if_present(index_path));
  MR_TRY(atomic_->finish());
  if (options_.index == IndexPolicy::kBeside && is_final_name(path_)) {
    const std::string bytes = MR_TRY(std::move(index_).finish(
        {{sink_->bytes(), sink_->content_hash()}, writer_->offset(), compression_, options_.key_rule}));
    MR_TRY(write_file_atomically(index_path, bytes));
  }
  return summary;
}

}  // namespace millrace::shard
