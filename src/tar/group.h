// Grouper: members to samples. A sample is a run of members with one key.
//
// It sees members in archive order and says when a run is complete. It keeps names and offsets, never data,
// so the same grouping serves mapped archives, streams and uploads. It also remembers the hash of every key
// it has seen (8 bytes per sample in key order, 16 to 32 otherwise), so that a key which returns after
// another is found out: silently it would become two half samples. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "tar/key.h"
#include "tar/parser.h"

namespace millrace::tar {

enum class OnFault {
  kFail,  // a returning key or a doubled field is an error
  kMark,  // it is marked on the group, and reading goes on
};

struct GroupOptions {
  KeyRule key_rule = KeyRule::kFirstDot;
  OnFault on_fault = OnFault::kFail;
};

struct Group {
  struct Field {
    uint32_t name_at = 0;  // in `names`
    uint32_t name_size = 0;
    uint32_t field_at = 0;  // in `names`; lower case
    uint32_t field_size = 0;
    uint64_t header_offset = 0;
    uint64_t data_offset = 0;
    uint64_t size = 0;
    bool doubled = false;  // an earlier member of the sample has the same field

    uint64_t end_offset() const { return data_offset + padded(size); }
  };

  static constexpr size_t kMaxNameBytes = 1 << 30;  // of all members of one sample

  std::string_view key() const { return std::string_view(names).substr(0, key_size); }
  std::string_view name(const Field& field) const {
    return std::string_view(names).substr(field.name_at, field.name_size);
  }
  std::string_view field_name(const Field& field) const {
    return std::string_view(names).substr(field.field_at, field.field_size);
  }
  // Begins a sample: its key, no fields yet.
  void start(const SplitName& split);
  Field& append(const Member& member, const SplitName& split);

  uint64_t offset() const { return fields.front().header_offset; }
  uint64_t end_offset() const { return fields.back().end_offset(); }

  uint64_t ordinal = 0;  // position among the archive's samples
  uint64_t key_hash = 0;
  uint32_t key_size = 0;
  std::string names;  // the members' names; the first begins with the key
  std::vector<Field> fields;
  bool returning = false;      // its key was seen before, with others in between
  bool has_gaps = false;       // members of no sample lie between its fields
  bool self_contained = true;  // its blocks mean the same when copied elsewhere
};

// Which sample and field a member is; nothing for members of no sample.
std::optional<SplitName> find_place(const Member& member, KeyRule rule);

// The keys seen so far, by hash. While keys come in rising order none can have come before, so hashes are
// only written down; the first key out of order turns them into a table (open addressing).
class SeenKeys {
 public:
  uint64_t memory() const {
    return (rising_.capacity() + slots_.capacity()) * sizeof(uint64_t) + highest_key_.capacity();
  }
  bool insert(std::string_view key, uint64_t hash);  // false where it was there

 private:
  bool insert_in_table(uint64_t hash);
  void resize_table(size_t slots);

  std::string highest_key_;
  std::vector<uint64_t> rising_;
  std::vector<uint64_t> slots_;  // 0: free; empty while keys rise
  size_t count_ = 0;
  bool has_zero_ = false;
};

class Grouper {
 public:
  Grouper(std::string archive_name, GroupOptions options)
      : archive_name_(std::move(archive_name)), options_(options) {}

  enum class Added {
    kJoined,     // part of the sample under way
    kCompleted,  // starts another sample: completed() is the one before
    kLoose,      // part of no sample
  };
  Result<Added> add(const Member& member);

  // The archive ended: true if a last sample was under way; completed() is it.
  bool finish();

  const Group& completed() const { return groups_[1 - current_]; }
  // Where the sample under way begins; the given offset if there is none.
  uint64_t pending_offset(uint64_t otherwise) const {
    return current().fields.empty() ? otherwise : current().offset();
  }
  uint64_t loose_members() const { return loose_members_; }
  uint64_t samples() const { return next_ordinal_; }
  uint64_t memory() const;

 private:
  Group& current() { return groups_[current_]; }
  const Group& current() const { return groups_[current_]; }
  Status begin(const Member& member, const SplitName& split);
  Status append(const Member& member, const SplitName& split);
  bool is_doubled(std::string_view field);

  const std::string archive_name_;
  const GroupOptions options_;
  Group groups_[2];  // the one under way and the one completed last, by turns
  int current_ = 0;
  SeenKeys seen_keys_;
  std::unordered_set<std::string> many_fields_;  // of the current sample, once it has many
  uint64_t next_ordinal_ = 0;
  uint64_t loose_members_ = 0;
  bool gap_ = false;
};

}  // namespace millrace::tar
