// Implements IndexBuilder and IndexFeed: collects rows in memory and writes them as one string.
#include "tar/index_build.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/assert.h"
#include "base/crc.h"
#include "tar/index_layout.h"

namespace millrace::tar {

static_assert(std::endian::native == std::endian::little, "the index is written as little-endian memory");

void IndexBuilder::begin_sample(uint64_t offset, uint64_t key_hash) {
  beyond_format_ |= samples_.size() >= layout::kMaxRows || fields_.size() >= layout::kMaxRows;
  samples_.push_back({offset, 0, key_hash, static_cast<uint32_t>(fields_.size())});
}

void IndexBuilder::add_field(const Field& field) {
  const uint64_t blocks = (field.data_offset - samples_.back().offset) / kBlock;
  const uint64_t name = field_id(field.field);
  beyond_format_ |= blocks > layout::kBlocksMask || name >= layout::kMaxNames;
  fields_.push_back({name << layout::kNameShift | blocks, field.size, field.crc});
}

void IndexBuilder::end_sample(uint64_t end_offset) {
  samples_.back().size = end_offset - samples_.back().offset;
}

uint64_t IndexBuilder::field_id(std::string_view field) {
  const auto [known, added] = field_ids_.try_emplace(std::string(field), field_names_.size());
  if (added) {
    field_names_.emplace_back(field);
    name_bytes_ += field.size();
  }
  return known->second;
}

Result<std::string> IndexBuilder::finish(const Totals& totals) && {
  using layout::put;
  if (beyond_format_) {
    return make_error(Code::kTooLarge,
                      "the shard has more samples or different fields than an index can hold")
        .with_hint("cut it into smaller shards with millrace tar split");
  }
  uint64_t name_bytes = 0;
  for (const std::string& name : field_names_) name_bytes += sizeof(uint32_t) + name.size();

  std::string bytes;
  bytes.reserve(layout::kHeaderBytes + name_bytes +
                samples_.size() * (layout::kSampleRow + layout::kHashRow) +
                fields_.size() * layout::kFieldRow + layout::kChecksumBytes);
  bytes += layout::kMagic;
  put<uint32_t>(bytes, layout::kVersion);
  put<uint8_t>(bytes, static_cast<uint8_t>(totals.compression));
  put<uint8_t>(bytes, static_cast<uint8_t>(totals.key_rule));
  put<uint16_t>(bytes, 0);
  put<uint64_t>(bytes, totals.shard.stored_bytes);
  put<uint64_t>(bytes, totals.shard.content_hash);
  put<uint64_t>(bytes, totals.tar_bytes);
  put<uint64_t>(bytes, samples_.size());
  put<uint64_t>(bytes, fields_.size());
  put<uint64_t>(bytes, field_names_.size());
  put<uint64_t>(bytes, name_bytes);
  for (const SampleRow& row : samples_) {
    put(bytes, row.offset);
    put(bytes, row.size);
    put(bytes, row.key_hash);
    put(bytes, row.first_field);
  }
  for (const FieldRow& row : fields_) {
    put(bytes, row.place);
    put(bytes, row.size);
    put(bytes, row.crc);
  }
  std::vector<uint32_t> by_hash(samples_.size());
  std::iota(by_hash.begin(), by_hash.end(), 0);
  std::ranges::sort(by_hash, [&](uint32_t a, uint32_t b) {
    return std::pair(samples_[a].key_hash, a) < std::pair(samples_[b].key_hash, b);
  });
  for (const uint32_t sample : by_hash) put(bytes, sample);
  for (const std::string& name : field_names_) {
    put(bytes, static_cast<uint32_t>(name.size()));
    bytes += name;
  }
  put(bytes, hash64(bytes));
  return bytes;
}

void IndexFeed::add_stored(std::string_view bytes) {
  content_.add(bytes);
  stored_bytes_ += bytes.size();
}

Status IndexFeed::add_tar(std::string_view bytes) {
  tar_bytes_ += bytes.size();
  reader_.feed(bytes);
  return drain();
}

Result<std::string> IndexFeed::finish(Compression compression) {
  reader_.finish();
  MR_TRY(drain());
  if (grouper_.finish()) take(grouper_.completed());
  return std::move(builder_)
      .finish({{stored_bytes_, content_.value()}, tar_bytes_, compression, options_.key_rule})
      .within(name_);
}

Status IndexFeed::drain() {
  while (true) {
    const FeedReader::Event event = MR_TRY(reader_.next());
    switch (event.kind) {
      case FeedReader::Kind::kPiece:
        if (in_field_) crcs_.back() = crc32c(event.piece, crcs_.back());
        break;
      case FeedReader::Kind::kNeedBytes:
      case FeedReader::Kind::kEnd:
        return {};
      case FeedReader::Kind::kMember: {
        const Grouper::Added added = MR_TRY(grouper_.add(*event.member));
        if (added == Grouper::Added::kCompleted) take(grouper_.completed());
        in_field_ = added != Grouper::Added::kLoose;
        if (in_field_) crcs_.push_back(0);
        break;
      }
    }
  }
}

void IndexFeed::take(const Group& group) {
  MR_ASSERT(crcs_.size() == group.fields.size(), crcs_.size(), group.fields.size());
  builder_.begin_sample(group.offset(), group.key_hash);
  for (size_t i = 0; i < crcs_.size(); ++i) {
    const Group::Field& field = group.fields[i];
    builder_.add_field({group.field_name(field), field.data_offset, field.size, crcs_[i]});
  }
  builder_.end_sample(group.end_offset());
  crcs_.clear();
}

}  // namespace millrace::tar
