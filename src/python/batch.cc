// Copies samples out of the reader's window into batches.
#include "python/batch.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace millrace::python {

namespace {

// The first bytes are looked at, then given again.
class PeekedSource final : public tar::ByteSource {
 public:
  explicit PeekedSource(std::unique_ptr<tar::ByteSource> source) : source_(std::move(source)) {}

  Result<std::string_view> peek(size_t bytes) {
    std::string start(bytes, 0);
    while (peeked_.size() < bytes) {
      const size_t got = MR_TRY(source_->read_some(std::as_writable_bytes(std::span(start))));
      if (got == 0) break;
      peeked_ += std::string_view(start).substr(0, got);
      start.resize(bytes - std::min(bytes, peeked_.size()));
    }
    return std::string_view(peeked_);
  }

  Result<size_t> read_some(std::span<std::byte> into) override {
    if (used_ == peeked_.size()) return source_->read_some(into);
    const size_t take = std::min(into.size(), peeked_.size() - used_);
    std::memcpy(into.data(), peeked_.data() + used_, take);
    used_ += take;
    return take;
  }
  Result<uint64_t> skip(uint64_t bytes) override { return tar::skip_by_reading(*this, bytes); }

 private:
  std::unique_ptr<tar::ByteSource> source_;
  std::string peeked_;
  size_t used_ = 0;
};

class StreamInput final : public Input {
 public:
  StreamInput(std::unique_ptr<tar::ByteSource> source, std::string name)
      : stored_(std::move(source)), name_(std::move(name)) {}

  Status open(uint64_t max_sample) {
    const std::string_view start = MR_TRY(stored_.peek(tar::kMagicBytes));
    if (start.empty()) return make_error(Code::kTruncated, "{} is empty", name_).at({}, 0);
    const tar::Compression compression = tar::recognise_compression(start);
    if (compression != tar::Compression::kNone) {
      plain_ = MR_TRY(tar::make_decompressor(compression, stored_, name_));
    }
    window_.emplace(plain_ ? *plain_ : stored_, max_sample);
    return {};
  }
  tar::Window& window() override { return *window_; }

 private:
  PeekedSource stored_;
  std::string name_;
  std::unique_ptr<tar::ByteSource> plain_;
  std::optional<tar::StreamWindow> window_;
};

}  // namespace

Result<std::unique_ptr<Input>> make_stream_input(std::unique_ptr<tar::ByteSource> source, std::string name,
                                                 uint64_t max_sample) {
  auto input = std::make_unique<StreamInput>(std::move(source), std::move(name));
  MR_TRY(input->open(max_sample));
  return std::unique_ptr<Input>(std::move(input));
}

Batch::Piece Batch::append(std::string_view text) {
  const Piece piece{bytes.size(), text.size()};
  bytes += text;
  return piece;
}

void Batch::clear() {
  bytes.clear();
  samples.clear();
  fields.clear();
  faults.clear();
}

Status BatchReader::open() {
  input_ = MR_TRY(open_());
  if (options_.unit == Unit::kSample) {
    samples_.emplace(input_->window(), name_, options_.read);
  } else {
    members_.emplace(input_->window(), name_, options_.read.archives);
  }
  return {};
}

Result<bool> BatchReader::fill(Batch& batch) {
  const bool found = MR_TRY(advance());
  if (found) add(batch);
  return found;
}

Result<bool> BatchReader::advance() {
  if (!input_) MR_TRY(open());
  if (options_.unit == Unit::kFile) return advance_to_file();
  sample_ = MR_TRY(samples_->next());
  return sample_ != nullptr;
}

Result<bool> BatchReader::advance_to_file() {
  while (true) {
    const tar::Member* member = MR_TRY(members_->next());
    if (member == nullptr) return false;
    if (!member->is_file) continue;
    file_name_ = member->name;
    file_bytes_ = MR_TRY(members_->bytes(member->data_offset, member->size));
    return true;
  }
}

void BatchReader::add(Batch& batch) const {
  if (options_.unit == Unit::kSample) {
    add_sample(batch, *sample_);
    return;
  }
  const size_t first_field = batch.fields.size();
  const Batch::Piece key = batch.append(file_name_);
  batch.fields.push_back({{}, batch.append(file_bytes_)});
  batch.samples.push_back({key, first_field, 1, std::nullopt});
}

void BatchReader::add_sample(Batch& batch, const tar::Sample& sample) const {
  Batch::Sample& added = batch.samples.emplace_back();
  added.key = batch.append(sample.key);
  added.first_field = batch.fields.size();
  for (const tar::Field& field : sample.fields) {
    // Of two fields of one name the first stays, whatever the reader says about it.
    if (field.doubled) continue;
    if (options_.fields && !options_.fields->contains(std::string(field.field))) continue;
    const Batch::Piece name = batch.append(field.field);
    batch.fields.push_back({name, batch.append(field.bytes)});
  }
  added.fields = batch.fields.size() - added.first_field;
  if (auto fault = fault_of(sample)) {
    added.fault = batch.faults.size();
    batch.faults.push_back(std::move(*fault));
  }
}

std::optional<Error> BatchReader::fault_of(const tar::Sample& sample) const {
  if (sample.returning) {
    return make_error(Code::kCorrupt,
                      "{}: key \"{}\" returns at byte {} after other keys: its sample is scattered", name_,
                      printable(sample.key), sample.offset)
        .with_hint("gather it with millrace tar verify --repair")
        .at(sample.fields.front().name, sample.offset);
  }
  const auto doubled = std::ranges::find_if(sample.fields, &tar::Field::doubled);
  if (doubled == sample.fields.end()) return std::nullopt;
  return make_error(Code::kCorrupt, "{}: sample \"{}\" has the field \"{}\" twice, again at byte {}", name_,
                    printable(sample.key), printable(doubled->field), doubled->data_offset)
      .with_hint("see all such places with millrace tar verify")
      .at(doubled->name, doubled->data_offset);
}

}  // namespace millrace::python
