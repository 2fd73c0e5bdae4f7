// Implements Assembly: fills the slots of a batch from the bytes of their samples.
#include "loader/assemble.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/crc.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/text.h"
#include "decode/inflate.h"
#include "decode/label.h"
#include "decode/npy.h"

namespace millrace::loader {

namespace {

// Slots a thread takes at a time: small samples are cheaper than taking turns, large ones are shared out.
constexpr size_t kMostRun = 16;
constexpr uint64_t kRunBytes = 64 << 10;
constexpr uint64_t kAlignment = 64;

decode::DType dtype_of(const decode::TransformSpec& spec) {
  switch (spec.type) {
    case decode::TransformSpec::Type::kUint8:
      return decode::DType::kUint8;
    case decode::TransformSpec::Type::kFloat32:
      return decode::DType::kFloat32;
    case decode::TransformSpec::Type::kFloat16:
      return decode::DType::kFloat16;
  }
  return decode::DType::kUint8;
}

std::vector<uint64_t> shape_of(const decode::TransformSpec& spec) {
  const uint64_t channels = decode::count(spec.channels);
  if (spec.layout == decode::TransformSpec::Layout::kChw)
    return {channels, spec.size.height, spec.size.width};
  return {spec.size.height, spec.size.width, channels};
}

const tar::Field* find_any(const tar::Sample& sample, const std::vector<std::string>& any_of) {
  for (const std::string& wanted : any_of) {
    if (const tar::Field* found = sample.find(wanted)) return found;
  }
  return nullptr;
}

std::optional<tar::Index::Field> find_any(const Shard& shard, uint64_t sample,
                                          const std::vector<std::string>& any_of) {
  for (const std::string& wanted : any_of) {
    if (auto found = shard.index->find_field(shard.ordinal(sample), wanted)) return found;
  }
  return std::nullopt;
}

std::string names_of_fields(std::span<const SampleSource> sources) {
  std::vector<tar::Field> fields;
  for (const SampleSource& source : sources)
    fields.insert(fields.end(), source.sample->fields.begin(), source.sample->fields.end());
  return tar::names_of_fields(fields);
}

constexpr std::string_view kStaleHint =
    "they were damaged, or the shard has changed since it was indexed: millrace tar verify";

// The sample must be the one that was indexed here: its number stands for its key in states and joined
// columns.
Status check_key(const SampleSource& source) {
  if (!source.shard->index || source.sample->key_hash == source.shard->key_hash(source.ordinal)) return {};
  return make_error(Code::kCorrupt, "the sample {} is not the one that was indexed there",
                    printable(source.sample->key))
      .with_hint(std::string(kStaleHint));
}

// The bytes must be those that were indexed: a drive, a wire or a server may have changed them.
Status check_bytes(const SampleSource& source, const tar::Field& found) {
  if (!source.shard->index) return {};
  const auto indexed = source.shard->index->find_field(source.shard->ordinal(source.ordinal), found.field);
  const uint32_t crc = crc32c(found.bytes);
  if (indexed && indexed->crc == crc) return {};
  const std::string told = indexed ? fmt::format("says {:08x}", indexed->crc) : "knows no such field";
  return make_error(Code::kCorrupt, "its bytes have the checksum {:08x}, the index {}", crc, told)
      .with_hint(std::string(kStaleHint));
}

// Images and labels may be stored as .gz; what is handed over as it is stored stays packed.
Result<std::string_view> plain_bytes(const tar::Field& found, FieldKind kind, Scratch& scratch) {
  const bool is_made_of_it = kind == FieldKind::kImage || kind == FieldKind::kLabel;
  if (!is_made_of_it || !found.name.ends_with(".gz")) return found.bytes;
  constexpr uint64_t kMostBytes = 1 << 30;
  scratch.unpacked = MR_TRY(decode::gunzip(found.bytes, kMostBytes));
  return std::string_view(scratch.unpacked);
}

// The place of a dense column's item.
std::span<std::byte> slot_of(const Column& column, size_t slot) {
  return {column.memory.memory.get() + slot * column.item_bytes, column.item_bytes};
}

std::string join(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ";"));
}

}  // namespace

Result<std::unique_ptr<Filling>> Filling::make(const Catalogue& catalogue, const Recipe& recipe,
                                               PixelKeep* keep, Meters& meters) {
  MR_TRY(check(recipe));
  std::unique_ptr<Filling> filling(new Filling(catalogue, recipe, keep, meters));
  for (const FieldSpec& field : recipe.fields) {
    filling->transforms_.emplace_back();
    if (field.kind == FieldKind::kImage)
      filling->transforms_.back() = MR_TRY(decode::Transform::make(field.image));
  }
  return filling;
}

void Filling::prepare(const BatchPlan& plan, Batch& batch) const {
  const size_t size = plan.elements.size();
  batch.epoch = plan.epoch;
  batch.number = plan.number;
  batch.size = size;
  for (const Element& element : plan.elements) batch.samples.push_back(element.sample);
  for (size_t i = 0; i < recipe_.fields.size(); ++i) {
    const FieldSpec& field = recipe_.fields[i];
    Column& column = batch.columns.emplace_back();
    column.kind = field.kind;
    if (field.kind == FieldKind::kKey) column.texts.resize(size);
    if (field.kind == FieldKind::kLabel) {
      column.dtype = decode::DType::kInt64;
      column.item_bytes = sizeof(int64_t);
    }
    if (field.kind == FieldKind::kImage) {
      column.dtype = dtype_of(field.image);
      column.item_bytes = transforms_[i]->output_bytes();
      if (column.item_bytes > 0) column.item_shape = shape_of(field.image);
      if (column.item_bytes == 0) column.images.resize(size);
    }
    uint64_t bytes = column.item_bytes * size;
    if (field.kind == FieldKind::kBytes || field.kind == FieldKind::kArray) {
      column.pieces.resize(size);
      if (field.kind == FieldKind::kArray) column.arrays.resize(size);
      for (size_t slot = 0; slot < size; ++slot) {
        const Element& element = plan.elements[slot];
        if (!element.field_bytes.empty()) {
          column.pieces[slot] = {bytes, element.field_bytes[i]};
          bytes += (element.field_bytes[i] + kAlignment - 1) / kAlignment * kAlignment;
          continue;
        }
        auto found =
            find_any(catalogue_.shards()[element.sample.shard], element.sample.ordinal, field.any_of);
        for (const Element& lent : element.columns) {
          if (!found)
            found = find_any(catalogue_.shards()[lent.sample.shard], lent.sample.ordinal, field.any_of);
        }
        if (!found) continue;  // filling the slot tells
        column.pieces[slot] = {bytes, found->size};
        bytes += (found->size + kAlignment - 1) / kAlignment * kAlignment;
      }
    }
    if (bytes > 0) column.memory = batch.pool().take(bytes);
  }
}

// The same for any rank, thread and start: only the sample, the seed and the epoch count.
uint64_t Filling::augmentation_key(const Element& element, const Batch& batch) const {
  const Shard& shard = catalogue_.shards()[element.sample.shard];
  const uint64_t hash = shard.index ? shard.key_hash(element.sample.ordinal) : element.key_hash;
  return mix(mix(mix(recipe_.seed) + batch.epoch) + hash) + element.sample.shard;
}

// A sample whose images are all there: its bytes were not fetched.
Status Filling::fill_kept(const Element& element, size_t slot, Batch& batch, Scratch& scratch) const {
  const uint64_t begun = steady_ns();
  const uint64_t key = augmentation_key(element, batch);
  for (size_t i = 0; i < recipe_.fields.size(); ++i) {
    const auto kept = keep_->find(element.sample, i);
    MR_ASSERT(kept.has_value(), element.sample.shard, element.sample.ordinal,
              i);  // what was found once stays
    Column& column = batch.columns[i];
    MR_TRY(transforms_[i]->run(*kept, key, scratch.workspace, slot_of(column, slot)));
  }
  meters_.decode.busy_ns.fetch_add(steady_ns() - begun, std::memory_order_relaxed);
  meters_.decode.count.fetch_add(recipe_.fields.size(), std::memory_order_relaxed);
  return {};
}

Status Filling::fill(const Element& element, size_t slot, Batch& batch, Scratch& scratch) const {
  if (!element.chunk) return fill_kept(element, slot, batch, scratch);
  const uint64_t begun = steady_ns();
  const std::string_view chunk = MR_TRY(element.chunk->get().during("fetch"));
  const uint64_t arrived = steady_ns();
  meters_.wait_bytes_ns.fetch_add(arrived - begun, std::memory_order_relaxed);
  const Shard& shard = catalogue_.shards()[element.sample.shard];
  const tar::KeyRule rule = shard.index ? shard.index->key_rule() : catalogue_.key_rule();
  const tar::Sample* sample =
      MR_TRY(scratch.parser(rule).parse(chunk.substr(element.offset, element.size)).during("untar"));
  scratch.sources.assign(1, {&shard, element.sample.ordinal, sample});
  MR_TRY(check_key(scratch.sources.back()).during("untar"));
  std::vector<tar::SampleParser> parsers;  // their samples are views into them
  parsers.reserve(element.columns.size());
  for (const Element& column : element.columns) {
    const Shard& other = catalogue_.shards()[column.sample.shard];
    const std::string_view bytes = MR_TRY(column.chunk->get().during("fetch"));
    tar::SampleParser& parser = parsers.emplace_back(other.index->key_rule());
    const tar::Sample* lent =
        MR_TRY(parser.parse(bytes.substr(column.offset, column.size)).within(other.name()).during("untar"));
    scratch.sources.push_back({&other, column.sample.ordinal, lent});
    MR_TRY(check_key(scratch.sources.back()).within(other.name()).during("untar"));
  }
  const uint64_t parsed = steady_ns();
  meters_.untar.busy_ns.fetch_add(parsed - arrived, std::memory_order_relaxed);
  meters_.untar.count.fetch_add(1, std::memory_order_relaxed);
  meters_.untar.bytes.fetch_add(element.size, std::memory_order_relaxed);
  const Target target{element, batch, slot, augmentation_key(element, batch)};
  for (size_t i = 0; i < recipe_.fields.size(); ++i) MR_TRY(fill_column(i, target, scratch).during("decode"));
  meters_.decode.busy_ns.fetch_add(steady_ns() - parsed, std::memory_order_relaxed);
  meters_.decode.count.fetch_add(recipe_.fields.size(), std::memory_order_relaxed);
  return {};
}

Status Filling::fill_column(size_t field, const Target& target, Scratch& scratch) const {
  const FieldSpec& spec = recipe_.fields[field];
  if (spec.kind == FieldKind::kKey) {
    target.batch.columns[field].texts[target.slot] = scratch.sources.front().sample->key;
    return {};
  }
  for (const SampleSource& source : scratch.sources) {
    const tar::Field* const found = find_any(*source.sample, spec.any_of);
    if (found == nullptr) continue;
    auto filled = fill_from(*found, source, field, target, scratch);
    if (filled) return {};
    const uint64_t start = source.shard->index ? source.shard->range(source.ordinal).offset : 0;
    return filled.take_error()
        .within("member " + printable(found->name))
        .at(found->name, start + found->data_offset)
        .in_shard(source.shard->name());
  }
  return make_error(Code::kNotFound, "sample {} has no field {}; it has {}",
                    printable(scratch.sources.front().sample->key), join(spec.any_of),
                    names_of_fields(scratch.sources));
}

Status Filling::fill_from(const tar::Field& found, const SampleSource& source, size_t field,
                          const Target& target, Scratch& scratch) const {
  const FieldKind kind = recipe_.fields[field].kind;
  Column& column = target.batch.columns[field];
  const bool keeps = kind == FieldKind::kImage && keep_ != nullptr && column.item_bytes > 0;
  if (keeps) {
    if (const auto kept = keep_->find(target.element.sample, field))
      return transforms_[field]->run(*kept, target.key, scratch.workspace, slot_of(column, target.slot));
  }
  MR_TRY(check_bytes(source, found));
  const std::string_view bytes = MR_TRY(plain_bytes(found, kind, scratch));
  if (kind != FieldKind::kImage) return fill_field(bytes, field, column, target.slot);
  const decode::Transform& transform = *transforms_[field];
  if (column.item_bytes == 0) {
    column.images[target.slot] = MR_TRY(transform.run_ragged(bytes, target.key, scratch.workspace));
    return {};
  }
  const std::span<std::byte> out = slot_of(column, target.slot);
  if (!keeps) return transform.run(bytes, target.key, scratch.workspace, out);
  decode::Pixels pixels;
  MR_TRY(
      decode::decode_bounded(bytes, keep_->max_side(), scratch.workspace, pixels, transform.spec().channels));
  keep_->keep(target.element.sample, field, pixels);
  return transform.run(pixels.view(), target.key, scratch.workspace, out);
}

Status Filling::fill_field(std::string_view stored, size_t field, Column& column, size_t slot) const {
  if (recipe_.fields[field].kind == FieldKind::kLabel) {
    const int64_t label = MR_TRY(decode::parse_label(stored));
    std::memcpy(column.memory.memory.get() + slot * sizeof label, &label, sizeof label);
    return {};
  }
  const Piece piece = column.pieces[slot];
  if (piece.size != stored.size()) {
    return make_error(Code::kCorrupt, "it has {} bytes where the index says {}", stored.size(), piece.size)
        .with_hint("the shard has changed since it was indexed: millrace tar index");
  }
  std::byte* const place = column.memory.memory.get() + piece.offset;
  if (!stored.empty()) std::memcpy(place, stored.data(), stored.size());
  if (recipe_.fields[field].kind == FieldKind::kBytes) return {};
  const decode::ArrayView array = MR_TRY(decode::parse_npy(stored));
  const auto header = static_cast<uint64_t>(array.bytes.data() - stored.data());
  column.arrays[slot] = {
      array.dtype, array.shape, array.fortran, {piece.offset + header, array.bytes.size()}};
  return {};
}

bool Assembly::work(const Filling& filling, Scratch& scratch, const std::atomic<bool>& stopped) {
  const size_t size = plan_.elements.size();
  const uint64_t each = plan_.bytes / std::max<size_t>(size, 1) + 1;
  const size_t run = std::clamp<size_t>(kRunBytes / each, 1, kMostRun);
  while (true) {
    const size_t first = next_.fetch_add(run);
    if (first >= size || stopped) return false;
    const size_t end = std::min(first + run, size);
    const uint64_t begun = steady_ns();
    for (size_t slot = first; slot < end; ++slot) {
      auto filled = filling.fill(plan_.elements[slot], slot, *batch_, scratch);
      if (!filled) {
        const MutexLock lock(mutex_);
        std::string member = filled.error().place() ? filled.error().place()->member : "";
        failed_.push_back({slot, std::move(member), filled.take_error()});
      }
      plan_.elements[slot].chunk = nullptr;  // its memory may go
      plan_.elements[slot].columns.clear();
    }
    filling.note_run(begun);
    if (done_.fetch_add(end - first) + (end - first) == size) return true;
  }
}

Finished Assembly::finish(const Filling& filling) {
  Finished finished;
  finished.bytes = plan_.bytes;
  finished.batch = settle(filling, finished.faults);
  return finished;
}

Result<std::shared_ptr<Batch>> Assembly::settle(const Filling& filling, std::vector<Fault>& faults) {
  const MutexLock lock(mutex_);  // nobody fills any more
  if (failed_.empty()) {
    batch_->join_arrays();
    return std::move(batch_);
  }
  std::sort(failed_.begin(), failed_.end(), [](const Failed& a, const Failed& b) { return a.slot < b.slot; });
  const OnError policy = filling.recipe().on_error;
  for (Failed& failed : failed_) {
    const Element& element = plan_.elements[failed.slot];
    const Shard& shard = filling.catalogue().shards()[element.sample.shard];
    const uint64_t offset = shard.index ? shard.range(element.sample.ordinal).offset : 0;
    Error error = std::move(failed.error)
                      .within(filling.catalogue().place_of(element.sample))
                      .at(failed.member, offset)
                      .in_shard(shard.name());
    faults.push_back({shard.name(), error.message(), error.stage(), plan_.epoch, plan_.number});
    // A source that is gone is not the sample's fault: leaving samples out would empty the epoch.
    if (policy == OnError::kFail || error.code() == Code::kUnavailable || error.code() == Code::kDenied)
      return error;
  }
  std::vector<bool> is_bad(plan_.elements.size());
  for (const Failed& failed : failed_) is_bad[failed.slot] = true;
  if (failed_.size() == is_bad.size() && policy == OnError::kSubstitute) {
    return make_error(Code::kCorrupt,
                      "batch {} of epoch {} has no good sample to stand for the others; the last: {}",
                      plan_.number, plan_.epoch, faults.back().what);
  }
  size_t to = 0;
  for (size_t slot = 0; slot < is_bad.size(); ++slot) {
    if (policy == OnError::kSkip) {
      if (is_bad[slot]) continue;
      if (to != slot) batch_->copy_slot(slot, to);
      ++to;
      continue;
    }
    size_t from = slot;
    while (is_bad[from]) from = (from + 1) % is_bad.size();
    if (from != slot) batch_->copy_slot(from, slot);
  }
  if (policy == OnError::kSkip) batch_->resize(to);
  batch_->join_arrays();
  return std::move(batch_);
}

}  // namespace millrace::loader
