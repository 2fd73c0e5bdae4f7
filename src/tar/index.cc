// Reads an index and checks every number in it before use.
#include "tar/index.h"

#include "base/hash.h"
#include "tar/index_layout.h"

namespace millrace::tar {

namespace {

Error damaged(std::string_view why) {
  return make_error(Code::kCorrupt, "shard index is damaged: {}", why)
      .with_hint("make it again: millrace tar index");
}

}  // namespace

Result<Index> Index::parse(std::string bytes) {
  using layout::get;
  Index index;
  index.bytes_ = std::move(bytes);
  const std::string_view all = index.bytes_;
  if (all.size() < layout::kHeaderBytes + layout::kChecksumBytes) return damaged("too short");
  if (!all.starts_with(layout::kMagic)) return damaged("it does not start like one");
  const auto version = get<uint32_t>(all, layout::kVersionAt);
  if (version != layout::kVersion) {
    return make_error(Code::kUnsupported, "shard index has version {}, this program reads version {}",
                      version, layout::kVersion)
        .with_hint("make it again: millrace tar index");
  }
  const size_t body = all.size() - layout::kChecksumBytes;
  if (get<uint64_t>(all, body) != hash64(all.substr(0, body))) return damaged("its checksum does not match");

  const auto compression = get<uint8_t>(all, layout::kCompressionAt);
  const auto key_rule = get<uint8_t>(all, layout::kKeyRuleAt);
  if (compression > static_cast<uint8_t>(Compression::kXz)) return damaged("unknown compression");
  if (key_rule > static_cast<uint8_t>(KeyRule::kLastDot)) return damaged("unknown key rule");
  if (get<uint16_t>(all, layout::kZeroAt) != 0) return damaged("reserved bytes are used");
  index.compression_ = static_cast<Compression>(compression);
  index.key_rule_ = static_cast<KeyRule>(key_rule);
  index.shard_ = {get<uint64_t>(all, layout::kStoredBytesAt), get<uint64_t>(all, layout::kContentHashAt)};
  index.tar_bytes_ = get<uint64_t>(all, layout::kTarBytesAt);
  index.sample_count_ = get<uint64_t>(all, layout::kSampleCountAt);
  index.field_count_ = get<uint64_t>(all, layout::kFieldCountAt);
  const auto name_count = get<uint64_t>(all, layout::kNameCountAt);
  const auto name_bytes = get<uint64_t>(all, layout::kNameBytesAt);
  // Each count is bounded by the bytes there are, so the products below cannot overflow.
  if (index.sample_count_ > all.size() || index.field_count_ > all.size() || name_bytes > all.size() ||
      name_count > name_bytes) {
    return damaged("its counts exceed its size");
  }
  index.samples_at_ = layout::kHeaderBytes;
  index.fields_at_ = index.samples_at_ + index.sample_count_ * layout::kSampleRow;
  index.by_hash_at_ = index.fields_at_ + index.field_count_ * layout::kFieldRow;
  size_t names_at = index.by_hash_at_ + index.sample_count_ * layout::kHashRow;
  if (names_at + name_bytes != body) return damaged("its sections do not add up");
  for (uint64_t i = 0; i < name_count; ++i) {
    if (body - names_at < sizeof(uint32_t)) return damaged("its field names do not add up");
    const auto size = get<uint32_t>(all, names_at);
    names_at += sizeof(uint32_t);
    if (body - names_at < size) return damaged("its field names do not add up");
    index.field_names_.push_back(all.substr(names_at, size));
    names_at += size;
  }
  if (names_at != body) return damaged("its field names do not add up");
  MR_TRY(index.check_samples());
  return index;
}

Status Index::check_samples() const {
  using layout::get;
  uint64_t end = 0;
  uint64_t field = 0;
  for (uint64_t sample = 0; sample < sample_count_; ++sample) {
    const Range where = range(sample);
    if (where.offset < end || where.offset % kBlock != 0 || where.size % kBlock != 0 ||
        where.offset > tar_bytes_ || where.size > tar_bytes_ - where.offset) {
      return damaged("a sample lies outside the shard");
    }
    end = where.offset + where.size;
    if (first_field(sample) != field) return damaged("a sample's fields are out of order");
    const uint64_t next = sample + 1 < sample_count_ ? first_field(sample + 1) : field_count_;
    if (next < field || next > field_count_) return damaged("a sample's fields are out of order");
    for (; field < next; ++field) {
      const auto place = get<uint64_t>(bytes_, fields_at_ + field * layout::kFieldRow);
      const auto size = get<uint64_t>(bytes_, fields_at_ + field * layout::kFieldRow + 8);
      const uint64_t start = (place & layout::kBlocksMask) * kBlock;
      if (place >> layout::kNameShift >= field_names_.size()) return damaged("a field has no name");
      if (start > where.size || size > where.size - start) return damaged("a field lies outside its sample");
    }
    const auto row = get<uint32_t>(bytes_, by_hash_at_ + sample * layout::kHashRow);
    if (row >= sample_count_) return damaged("its key table is wrong");
    if (sample > 0) {
      const auto before = get<uint32_t>(bytes_, by_hash_at_ + (sample - 1) * layout::kHashRow);
      if (std::pair(key_hash(before), before) >= std::pair(key_hash(row), row))
        return damaged("its key table is wrong");
    }
  }
  if (field != field_count_) return damaged("a field has no sample");
  return {};
}

Index::Range Index::range(uint64_t sample) const {
  const size_t row = samples_at_ + sample * layout::kSampleRow;
  return {layout::get<uint64_t>(bytes_, row), layout::get<uint64_t>(bytes_, row + 8)};
}

uint64_t Index::key_hash(uint64_t sample) const {
  return layout::get<uint64_t>(bytes_, samples_at_ + sample * layout::kSampleRow + 16);
}

uint64_t Index::first_field(uint64_t sample) const {
  return layout::get<uint32_t>(bytes_, samples_at_ + sample * layout::kSampleRow + 24);
}

uint64_t Index::end_field(uint64_t sample) const {
  return sample + 1 < sample_count_ ? first_field(sample + 1) : field_count_;
}

Index::Field Index::field_at(uint64_t row, uint64_t start) const {
  const auto place = layout::get<uint64_t>(bytes_, fields_at_ + row * layout::kFieldRow);
  const auto size = layout::get<uint64_t>(bytes_, fields_at_ + row * layout::kFieldRow + 8);
  return {field_names_[place >> layout::kNameShift], start + (place & layout::kBlocksMask) * kBlock, size,
          layout::get<uint32_t>(bytes_, fields_at_ + row * layout::kFieldRow + 16)};
}

std::vector<Index::Field> Index::fields(uint64_t sample) const {
  MR_ASSERT(sample < sample_count_, sample, sample_count_);
  const uint64_t start = range(sample).offset;
  std::vector<Field> fields;
  for (uint64_t row = first_field(sample); row < end_field(sample); ++row)
    fields.push_back(field_at(row, start));
  return fields;
}

std::optional<Index::Field> Index::find_field(uint64_t sample, std::string_view field) const {
  MR_ASSERT(sample < sample_count_, sample, sample_count_);
  const uint64_t start = range(sample).offset;
  for (uint64_t row = first_field(sample); row < end_field(sample); ++row) {
    const Field found = field_at(row, start);
    if (found.field == field) return found;
  }
  return std::nullopt;
}

std::vector<uint64_t> Index::find(std::string_view key) const {
  const uint64_t wanted = hash64(key);
  const auto sample_at = [&](uint64_t row) {
    return layout::get<uint32_t>(bytes_, by_hash_at_ + row * layout::kHashRow);
  };
  uint64_t low = 0;
  uint64_t high = sample_count_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (key_hash(sample_at(middle)) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  std::vector<uint64_t> found;
  for (; low < sample_count_ && key_hash(sample_at(low)) == wanted; ++low) found.push_back(sample_at(low));
  return found;
}

}  // namespace millrace::tar
