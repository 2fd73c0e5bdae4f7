// Implements the stages of sample streams.
#include "shard/stream.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/number.h"
#include "base/text.h"

namespace millrace::shard {

Result<const tar::Sample*> InputStream::next() {
  while (true) {
    if (!input_) {
      if (opened_ == names_.size()) return nullptr;
      input_ = MR_TRY(ShardInput::open(names_[opened_++], options_));
      input_->samples().on_loose(on_loose_);
    }
    auto read = input_->samples().next();
    if (!read) return read.take_error().in_shard(names_[opened_ - 1]);
    if (const tar::Sample* sample = *read) {
      origin_ = {opened_ - 1, sample->ordinal};
      if (options_.progress != nullptr) options_.progress->add(0, 1);
      return sample;
    }
    loose_before_ += input_->samples().loose_members();
    input_.reset();
  }
}

uint64_t InputStream::loose_members() const {
  return loose_before_ + (input_ ? input_->samples().loose_members() : 0);
}

MixStream::MixStream(std::vector<Part> parts) {
  for (Part& part : parts) lanes_.push_back({std::move(part.stream), part.weight, 0, false});
}

Result<const tar::Sample*> MixStream::next() {
  while (true) {
    // The lane that is furthest behind its share gives next; ties go to the first.
    Lane* next = nullptr;
    for (Lane& lane : lanes_) {
      if (!lane.empty && (next == nullptr || lane.due() < next->due())) next = &lane;
    }
    if (next == nullptr) return nullptr;
    const tar::Sample* sample = MR_TRY(next->stream->next());
    if (sample != nullptr) {
      ++next->given;
      return sample;
    }
    next->empty = true;
  }
}

Result<Slice> parse_slice(std::string_view text) {
  const auto bad = [&] {
    return make_error(Code::kInvalid, "\"{}\" is not a slice", text)
        .with_hint("write begin:end or begin:end:step, for example 0:1000 or ::10");
  };
  uint64_t parts[3] = {0, UINT64_MAX, 1};
  size_t part = 0;
  std::string_view rest = text;
  while (true) {
    if (part == 3) return bad();
    const size_t colon = rest.find(':');
    const std::string_view piece = rest.substr(0, colon);
    if (!piece.empty()) {
      const auto number = parse_number<uint64_t>(piece);
      if (!number) return bad();
      parts[part] = *number;
    }
    ++part;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (part == 1 || parts[2] == 0) return bad();
  return Slice{parts[0], parts[1], parts[2]};
}

Result<const tar::Sample*> SliceStream::next() {
  while (position_ < slice_.end) {
    const tar::Sample* sample = MR_TRY(before_->next());
    if (sample == nullptr) return nullptr;
    const uint64_t here = position_++;
    if (here >= slice_.begin && (here - slice_.begin) % slice_.step == 0) return sample;
  }
  return nullptr;
}

Result<const tar::Sample*> ShuffleStream::next() {
  while (!drained_ &&
         (buffer_.empty() || (buffer_.size() < options_.samples && buffered_bytes_ < options_.bytes))) {
    const tar::Sample* sample = MR_TRY(before_->next());
    if (sample == nullptr) {
      drained_ = true;
      break;
    }
    std::string blocks;
    blocks.reserve(sample->blocks.size());
    MR_TRY(tar::append_blocks(blocks, *sample));
    buffered_bytes_ += blocks.size();
    buffer_.push_back({std::move(blocks), before_->origin()});
  }
  if (buffer_.empty()) return nullptr;
  const uint64_t chosen = random_.below(buffer_.size());
  std::swap(buffer_[chosen], buffer_.back());
  shown_ = std::move(buffer_.back());
  buffer_.pop_back();
  buffered_bytes_ -= shown_.blocks.size();
  return parser_.parse(shown_.blocks);
}

Result<std::vector<FieldChoice>> parse_field_choices(std::string_view text) {
  std::vector<FieldChoice> choices;
  const auto bad = [&] {
    return make_error(Code::kInvalid, "\"{}\" does not choose fields", text)
        .with_hint("for example \"jpg cls\" or \"jpg;jpeg=image cls\"");
  };
  for (const std::string& word : split_words(text)) {
    std::string_view item = word;
    FieldChoice choice;
    const size_t equals = item.find('=');
    if (equals != std::string_view::npos) {
      choice.name = lower_case(item.substr(equals + 1));
      item = item.substr(0, equals);
      if (choice.name.empty() || choice.name.find('/') != std::string::npos) return bad();
    }
    while (true) {
      const size_t semicolon = item.find(';');
      choice.any_of.push_back(lower_case(item.substr(0, semicolon)));
      if (choice.any_of.back().empty()) return bad();
      if (semicolon == std::string_view::npos) break;
      item.remove_prefix(semicolon + 1);
    }
    choices.push_back(std::move(choice));
  }
  if (choices.empty()) return bad();
  // Whatever a sample has, no two items may give it the same field.
  std::set<std::string> given;
  for (const FieldChoice& choice : choices) {
    const bool renamed = !choice.name.empty();
    const std::vector<std::string>& names = choice.any_of;
    const bool clash =
        renamed ? !given.insert(choice.name).second
                : std::ranges::any_of(names, [&](const auto& name) { return !given.insert(name).second; });
    if (clash) return make_error(Code::kInvalid, "\"{}\" gives a sample the same field twice", text);
  }
  return choices;
}

Result<const tar::Sample*> SelectStream::next() {
  const tar::Sample* whole = MR_TRY(before_->next());
  if (whole == nullptr) return nullptr;
  fields_.clear();
  names_.assign(choices_.size(), {});
  for (size_t i = 0; i < choices_.size(); ++i) {
    const FieldChoice& choice = choices_[i];
    const tar::Field* found = nullptr;
    for (const std::string& alternative : choice.any_of) {
      if (found == nullptr) found = whole->find(alternative);
    }
    if (found == nullptr) {
      return make_error(Code::kNotFound, "sample \"{}\" has no field {}; it has {}", printable(whole->key),
                        fmt::join(choice.any_of, " or "), tar::names_of_fields(whole->fields));
    }
    tar::Field field = *found;
    if (!choice.name.empty() && choice.name != found->field) {
      names_[i] = fmt::format("{}.{}", whole->key, choice.name);
      field.field = choice.name;
      field.name = names_[i];
      field.blocks = {};
    }
    fields_.push_back(field);
  }
  sample_ = *whole;
  sample_.fields = fields_;
  sample_.copyable = false;
  return &sample_;
}

Result<const tar::Sample*> RekeyStream::next() {
  const tar::Sample* whole = MR_TRY(before_->next());
  if (whole == nullptr) return nullptr;
  key_ = pattern_.at(position_++);
  fields_.assign(whole->fields.begin(), whole->fields.end());
  names_.resize(fields_.size());
  for (size_t i = 0; i < fields_.size(); ++i) {
    names_[i] = fmt::format("{}.{}", key_, fields_[i].field);
    fields_[i].name = names_[i];
    fields_[i].blocks = {};
  }
  sample_ = *whole;
  sample_.key = key_;
  sample_.key_hash = hash64(key_);
  sample_.fields = fields_;
  sample_.copyable = false;
  return &sample_;
}

}  // namespace millrace::shard
