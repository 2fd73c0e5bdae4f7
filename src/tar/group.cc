// Implements Grouper: finds runs of members with one key.
#include "tar/group.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/hash.h"
#include "base/text.h"

namespace millrace::tar {

namespace {

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

// The field is the end of the name that was just added, unless it has capitals: then a lower-case copy.
uint32_t place_field(std::string& names, std::string_view field) {
  if (std::ranges::none_of(field, is_upper)) return static_cast<uint32_t>(names.size() - field.size());
  const size_t at = names.size();
  names += field;
  for (char& c : std::span(names).subspan(at)) {
    if (is_upper(c)) c = static_cast<char>(c + ('a' - 'A'));
  }
  return static_cast<uint32_t>(at);
}

}  // namespace

bool SeenKeys::insert(std::string_view key, uint64_t hash) {
  if (slots_.empty()) {
    if (rising_.empty() || key > highest_key_) {
      highest_key_.assign(key);
      rising_.push_back(hash);
      return true;
    }
    resize_table(1024);
    for (const uint64_t earlier : rising_) insert_in_table(earlier);
    rising_ = {};
  }
  return insert_in_table(hash);
}

bool SeenKeys::insert_in_table(uint64_t hash) {
  if (hash == 0) return !std::exchange(has_zero_, true);
  if (count_ * 2 >= slots_.size()) resize_table(slots_.size() * 2);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    if (slots_[at] == hash) return false;
    if (slots_[at] == 0) {
      slots_[at] = hash;
      ++count_;
      return true;
    }
  }
}

void SeenKeys::resize_table(size_t slots) {
  std::vector<uint64_t> old(slots);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const uint64_t hash : old) {
    if (hash == 0) continue;
    size_t at = hash & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = hash;
  }
}

void Group::start(const SplitName& split) {
  names.clear();
  key_size = static_cast<uint32_t>(split.key.size());
  key_hash = hash64(split.key);
  fields.clear();
  returning = false;
  has_gaps = false;
  self_contained = true;
}

Group::Field& Group::append(const Member& member, const SplitName& split) {
  Field& field = fields.emplace_back();
  field.name_at = static_cast<uint32_t>(names.size());
  field.name_size = static_cast<uint32_t>(member.name.size());
  names.append(member.name);
  field.field_size = static_cast<uint32_t>(split.field.size());
  field.field_at = place_field(names, split.field);
  field.header_offset = member.header_offset;
  field.data_offset = member.data_offset;
  field.size = member.size;
  self_contained &= member.self_contained;
  return field;
}

std::optional<SplitName> find_place(const Member& member, KeyRule rule) {
  if (!member.is_file || is_archive_metadata(member.name)) return std::nullopt;
  return split_name(member.name, rule);
}

Result<Grouper::Added> Grouper::add(const Member& member) {
  const std::optional<SplitName> split = find_place(member, options_.key_rule);
  if (!split) {
    ++loose_members_;
    gap_ = true;
    return Added::kLoose;
  }
  if (current().fields.empty()) {
    MR_TRY(begin(member, *split));
    return Added::kJoined;
  }
  if (current().key() == split->key) {
    MR_TRY(append(member, *split));
    return Added::kJoined;
  }
  current_ = 1 - current_;
  MR_TRY(begin(member, *split));
  return Added::kCompleted;
}

uint64_t Grouper::memory() const {
  constexpr uint64_t kFieldOverhead = 96;  // of one name in many_fields_
  uint64_t bytes = seen_keys_.memory() + many_fields_.size() * kFieldOverhead;
  for (const Group& group : groups_)
    bytes += group.names.capacity() + group.fields.capacity() * sizeof(Group::Field);
  return bytes;
}

bool Grouper::finish() {
  if (current().fields.empty()) return false;
  current_ = 1 - current_;
  current().fields.clear();
  return true;
}

Status Grouper::begin(const Member& member, const SplitName& split) {
  Group& group = current();
  group.start(split);
  group.ordinal = next_ordinal_++;
  group.returning = !seen_keys_.insert(split.key, group.key_hash);
  many_fields_.clear();
  gap_ = false;
  if (group.returning && options_.on_fault == OnFault::kFail) {
    return make_error(Code::kCorrupt,
                      "{}: key \"{}\" returns at byte {} after other keys: its sample is scattered",
                      archive_name_, printable(split.key), member.header_offset)
        .with_hint(
            "millrace tar cat --gather brings its members together; tar --sort=name writes them so at once")
        .at(member.name, member.header_offset);
  }
  return append(member, split);
}

Status Grouper::append(const Member& member, const SplitName& split) {
  Group& group = current();
  if (group.names.size() + 2 * member.name.size() > Group::kMaxNameBytes) {
    return make_error(Code::kTooLarge, "{}: sample \"{}\" has more than {} bytes of names at byte {}",
                      archive_name_, printable(group.key(), 200), Group::kMaxNameBytes, member.header_offset)
        .at(member.name, member.header_offset);
  }
  Group::Field& field = group.append(member, split);
  if (group.fields.size() > 1) field.doubled = is_doubled(group.field_name(field));
  if (field.doubled && options_.on_fault == OnFault::kFail) {
    return make_error(Code::kCorrupt, "{}: sample \"{}\" has the field \"{}\" twice, again at byte {}",
                      archive_name_, printable(group.key()), printable(group.field_name(field)),
                      member.header_offset)
        .with_hint(
            "see all such places with millrace tar verify; names with dots may want --key-rule last-dot")
        .at(member.name, member.header_offset);
  }
  group.has_gaps |= gap_;
  gap_ = false;
  return {};
}

bool Grouper::is_doubled(std::string_view field) {
  // A handful of fields is compared directly; a set would cost more than the whole parse.
  constexpr size_t kFew = 16;
  const Group& group = current();
  const std::span<const Group::Field> earlier(group.fields.data(), group.fields.size() - 1);
  if (earlier.size() < kFew) {
    return std::ranges::any_of(earlier,
                               [&](const Group::Field& other) { return group.field_name(other) == field; });
  }
  if (many_fields_.empty()) {
    for (const Group::Field& other : earlier) many_fields_.emplace(group.field_name(other));
  }
  return !many_fields_.emplace(field).second;
}

}  // namespace millrace::tar
