// Slots filled from the bytes of their samples.
#include "loader/assemble.h"

#include <algorithm>
#include <cstring>

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

// A sample of another data set that lends fields.
struct LentSample {
  explicit LentSample(tar::KeyRule rule) : parser(rule) {}
  tar::SampleParser parser;
  const tar::Sample* sample = nullptr;
};

// Images and labels may be stored as .gz; what is handed over as it is stored stays packed.
Result<std::string_view> plain_bytes(const tar::Field& found, FieldKind kind, Scratch& scratch) {
  const bool is_made_of_it = kind == FieldKind::kImage || kind == FieldKind::kLabel;
  if (!is_made_of_it || !found.name.ends_with(".gz")) return found.bytes;
  constexpr uint64_t kMostBytes = 1 << 30;
  scratch.unpacked = MR_TRY(decode::gunzip(found.bytes, kMostBytes));
  return std::string_view(scratch.unpacked);
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

Status Filling::fill(const Element& element, size_t slot, Batch& batch, Scratch& scratch) const {
  const uint64_t begun = steady_ns();
  const std::string_view chunk = MR_TRY(element.chunk->get());
  const uint64_t arrived = steady_ns();
  meters_.wait_bytes_ns.fetch_add(arrived - begun, std::memory_order_relaxed);
  const Shard& shard = catalogue_.shards()[element.sample.shard];
  const tar::KeyRule rule = shard.index ? shard.index->key_rule() : tar::KeyRule::kFirstDot;
  const tar::Sample* sample = MR_TRY(scratch.parser(rule).parse(chunk.substr(element.offset, element.size)));
  std::vector<LentSample> lent;
  lent.reserve(element.columns.size());
  for (const Element& column : element.columns) {
    const Shard& other = catalogue_.shards()[column.sample.shard];
    const std::string_view bytes = MR_TRY(column.chunk->get());
    LentSample& one = lent.emplace_back(other.index->key_rule());
    one.sample = MR_TRY(one.parser.parse(bytes.substr(column.offset, column.size)).within(other.name()));
  }
  const uint64_t parsed = steady_ns();
  meters_.untar.busy_ns.fetch_add(parsed - arrived, std::memory_order_relaxed);
  meters_.untar.count.fetch_add(1, std::memory_order_relaxed);
  meters_.untar.bytes.fetch_add(element.size, std::memory_order_relaxed);
  // The same for any rank, thread and start: only the sample, the seed and the epoch count.
  const uint64_t hash = shard.index ? shard.key_hash(element.sample.ordinal) : element.key_hash;
  const uint64_t key = mix(mix(mix(recipe_.seed) + batch.epoch) + hash) + element.sample.shard;
  for (size_t i = 0; i < recipe_.fields.size(); ++i) {
    const FieldSpec& field = recipe_.fields[i];
    Column& column = batch.columns[i];
    if (field.kind == FieldKind::kKey) {
      column.texts[slot] = sample->key;
      continue;
    }
    const tar::Field* found = find_any(*sample, field.any_of);
    for (const LentSample& one : lent) {
      if (found == nullptr) found = find_any(*one.sample, field.any_of);
    }
    if (found == nullptr) {
      return make_error(Code::kNotFound, "sample {} has no field {}", printable(sample->key),
                        join(field.any_of));
    }
    const auto fill_slot = [&]() -> Status {
      const std::string_view bytes = MR_TRY(plain_bytes(*found, field.kind, scratch));
      if (field.kind == FieldKind::kImage)
        return fill_image(bytes, i, element, column, slot, key, scratch.workspace);
      return fill_field(bytes, i, column, slot);
    };
    auto filled = fill_slot();
    if (!filled) {
      return filled.take_error()
          .within("member " + printable(found->name))
          .at(found->name, found->data_offset);
    }
  }
  meters_.decode.busy_ns.fetch_add(steady_ns() - parsed, std::memory_order_relaxed);
  meters_.decode.count.fetch_add(recipe_.fields.size(), std::memory_order_relaxed);
  return {};
}

Status Filling::fill_image(std::string_view encoded, size_t field, const Element& element, Column& column,
                           size_t slot, uint64_t key, decode::Workspace& workspace) const {
  const decode::Transform& transform = *transforms_[field];
  if (column.item_bytes == 0) {
    column.images[slot] = MR_TRY(transform.run_ragged(encoded, key, workspace));
    return {};
  }
  const std::span<std::byte> out(column.memory.memory.get() + slot * column.item_bytes, column.item_bytes);
  if (keep_ == nullptr) return transform.run(encoded, key, workspace, out);
  auto kept = keep_->find(element.sample, field);
  if (kept) return transform.run(*kept, key, workspace, out);
  decode::Pixels pixels;
  MR_TRY(decode::decode_bounded(encoded, keep_->max_side(), workspace, pixels, transform.spec().channels));
  keep_->keep(element.sample, field, pixels);
  return transform.run(pixels.view(), key, workspace, out);
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

namespace {

// A streamed sample is told by its members' names, which the error has already.
std::string place_of(const Shard& shard, const Element& element) {
  if (!shard.index) return fmt::format("a streamed sample of {} bytes", element.size);
  return fmt::format("{}: sample {} at byte {}", shard.name(), shard.ordinal(element.sample.ordinal),
                     shard.range(element.sample.ordinal).offset);
}

}  // namespace

bool Assembly::work(const Filling& filling, Scratch& scratch) {
  const size_t size = plan_.elements.size();
  const uint64_t each = plan_.bytes / std::max<size_t>(size, 1) + 1;
  const size_t run = std::clamp<size_t>(kRunBytes / each, 1, kMostRun);
  while (true) {
    const size_t first = next_.fetch_add(run);
    if (first >= size) return false;
    const size_t end = std::min(first + run, size);
    const uint64_t begun = steady_ns();
    for (size_t slot = first; slot < end; ++slot) {
      auto filled = filling.fill(plan_.elements[slot], slot, *batch_, scratch);
      if (!filled) {
        std::lock_guard lock(mutex_);
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

Result<std::shared_ptr<Batch>> Assembly::finish(const Filling& filling, std::vector<Fault>& faults) {
  if (failed_.empty()) return std::move(batch_);
  std::sort(failed_.begin(), failed_.end(), [](const Failed& a, const Failed& b) { return a.slot < b.slot; });
  const OnError policy = filling.recipe().on_error;
  for (Failed& failed : failed_) {
    const Element& element = plan_.elements[failed.slot];
    const Shard& shard = filling.catalogue().shards()[element.sample.shard];
    const uint64_t offset = shard.index ? shard.range(element.sample.ordinal).offset : 0;
    Error error = std::move(failed.error).within(place_of(shard, element)).at(failed.member, offset);
    faults.push_back({shard.name(), error.message(), plan_.epoch, plan_.number});
    // A source that is gone is not the sample's fault: leaving samples out would empty the epoch.
    if (policy == OnError::kFail || error.code() == Code::kUnavailable || error.code() == Code::kDenied)
      return error;
  }
  std::vector<bool> is_bad(plan_.elements.size());
  for (const Failed& failed : failed_) is_bad[failed.slot] = true;
  if (failed_.size() == is_bad.size() && policy == OnError::kSubstitute) {
    return make_error(Code::kCorrupt,
                      "batch {} of epoch {} has no good sample to stand for the others; the first: {}",
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
  return std::move(batch_);
}

}  // namespace millrace::loader
