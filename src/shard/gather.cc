// Implements GatherStream: decides whether samples are whole, passes whole ones on and gathers the others.
#include "shard/gather.h"

#include <algorithm>

#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "shard/sort.h"

namespace millrace::shard {

namespace {

// A key that returns is what this is for.
InputOptions with_marks(InputOptions options) {
  options.read.group.on_fault = tar::OnFault::kMark;
  return options;
}

// The same key in another archive is another sample.
uint64_t identity_of(uint64_t key_hash, const SampleStream::Origin& origin) {
  return key_hash ^ mix(origin.input);
}

Status check_fields(const tar::Sample& sample) {
  std::vector<std::string_view> fields;
  for (const tar::Field& field : sample.fields) fields.push_back(field.field);
  std::ranges::sort(fields);
  const auto twice = std::ranges::adjacent_find(fields);
  if (twice == fields.end()) return {};
  return make_error(Code::kInvalid, "sample \"{}\" has the field {} twice", printable(sample.key), *twice)
      .with_hint("millrace tar verify names all such samples");
}

}  // namespace

GatherStream::GatherStream(std::vector<std::string> names, InputOptions input, GatherOptions options)
    : options_(std::move(options)),
      key_rule_(input.read.group.key_rule),
      input_(std::move(names), with_marks(input)),
      parser_(key_rule_) {}

Result<const tar::Sample*> GatherStream::next() {
  if (mode_ == Mode::kUndecided) MR_TRY(decide());
  if (mode_ == Mode::kPassing) {
    const tar::Sample* sample = MR_TRY(pass());
    if (sample != nullptr || mode_ == Mode::kPassing) return sample;
  }
  return next_gathered();
}

bool GatherStream::may_be_incomplete(const tar::Sample& sample) {
  if (fields_.empty()) {
    for (const tar::Field& field : sample.fields) fields_.emplace_back(field.field);
  }
  // One field alone: the others may come in a block of their own, as in tar -c *.jpg *.cls.
  return sample.returning || sample.fields.size() == 1 ||
         !std::ranges::equal(sample.fields, fields_, {}, &tar::Field::field);
}

Status GatherStream::decide() {
  if (options_.when == GatherOptions::When::kAlways || options_.shuffle_seed) return gather_rest(nullptr);
  uint64_t bytes = 0;
  while (held_.size() < kHoldSamples && bytes < kHoldBytes) {
    const tar::Sample* sample = MR_TRY(input_.next());
    if (sample == nullptr) {
      input_ended_ = true;
      break;
    }
    if (may_be_incomplete(*sample)) return gather_rest(sample);
    MR_TRY(check_fields(*sample));
    Held held{{}, input_.origin(), sample->key_hash};
    MR_TRY(tar::append_blocks(held.blocks, *sample));
    bytes += held.blocks.size();
    held_.push_back(std::move(held));
  }
  mode_ = Mode::kPassing;
  return {};
}

Result<const tar::Sample*> GatherStream::pass() {
  if (!held_.empty()) {
    shown_ = std::move(held_.front());
    held_.pop_front();
    ++report_.passed;
    return parser_.parse(shown_.blocks);
  }
  if (input_ended_) return nullptr;
  const tar::Sample* sample = MR_TRY(input_.next());
  if (sample == nullptr) {
    input_ended_ = true;
    return nullptr;
  }
  if (may_be_incomplete(*sample)) {
    MR_TRY(gather_rest(sample));
    return nullptr;
  }
  MR_TRY(check_fields(*sample));
  ++report_.passed;
  return sample;
}

Status GatherStream::gather_rest(const tar::Sample* first) {
  mode_ = Mode::kGathered;
  pile_ = std::make_unique<RunPile>(
      RunPileOptions{Direction::kRising, options_.memory, options_.temporary_directory});
  arena_ = MR_TRY(pile_->make_arena(options_.memory / 64 * 64));
  // Nothing was given yet: what was held back is gathered with the rest.
  for (const Held& held : held_) MR_TRY(gather(held.blocks, held.key_hash, held.origin));
  held_.clear();
  const tar::Sample* sample = first != nullptr ? first : MR_TRY(input_.next());
  while (sample != nullptr) {
    const Origin origin = input_.origin();
    if (sample->returning && !first_seen_.contains(identity_of(sample->key_hash, origin))) {
      return make_error(Code::kInvalid,
                        "sample \"{}\" goes on after it was written: its members are scattered",
                        printable(sample->key))
          .with_hint(
              "--gather looks at all members before it writes; tar --sort=name keeps samples together");
    }
    MR_TRY(check_fields(*sample));
    blocks_.clear();
    MR_TRY(tar::append_blocks(blocks_, *sample));
    MR_TRY(gather(blocks_, sample->key_hash, origin));
    sample = MR_TRY(input_.next());
  }
  pile_->keep(std::move(*arena_));
  arena_.reset();
  report_.gathered = first_seen_.size();
  report_.spilled_bytes = pile_->spilled_bytes();
  first_seen_ = {};
  merged_ = make_merge(MR_TRY(pile_->open()), Direction::kRising);
  ahead_ = MR_TRY(merged_->next());
  return {};
}

Status GatherStream::gather(std::string_view blocks, uint64_t key_hash, const Origin& origin) {
  samples_of_.resize(std::max(samples_of_.size(), origin.input + 1));
  const auto [seen, fresh] =
      first_seen_.try_emplace(identity_of(key_hash, origin), samples_of_[origin.input]);
  if (fresh) ++samples_of_[origin.input];
  ++report_.pieces;
  const Place sample{origin.input, seen->second};
  std::string order;
  if (options_.shuffle_seed) order = random_order(sample, *options_.shuffle_seed);
  order += big_endian(sample.shard) + big_endian(sample.ordinal);
  return pile_->add(*arena_, {order, {origin.input, origin.ordinal}, blocks});
}

Result<const tar::Sample*> GatherStream::next_gathered() {
  if (ahead_ == nullptr) return nullptr;
  const std::string order(ahead_->order);
  blocks_.clear();
  while (ahead_ != nullptr && ahead_->order == order) {
    blocks_.append(ahead_->blocks);
    ahead_ = MR_TRY(merged_->next());
  }
  const tar::Sample* sample = MR_TRY(parser_.parse(blocks_));
  MR_TRY(check_fields(*sample));
  return sample;
}

}  // namespace millrace::shard
