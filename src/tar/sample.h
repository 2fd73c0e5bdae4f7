// SampleReader: the samples of an archive, each with its fields' bytes in place.
//
// Over a MappedWindow fields are views into the mapping; over a StreamWindow into a buffer that holds the
// whole current sample. A Sample and its views are valid until the next call of next(). One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tar/group.h"
#include "tar/reader.h"
#include "tar/window.h"

namespace millrace::tar {

struct Field {
  std::string_view field;  // "jpg", lower case
  std::string_view name;   // the member's whole name
  std::string_view bytes;
  std::string_view blocks;  // the member as it lies in the archive; empty where that means nothing elsewhere
  uint64_t data_offset = 0;
  bool doubled = false;
};

struct Sample {
  std::string_view key;
  std::span<const Field> fields;
  uint64_t ordinal = 0;  // position in its archive
  uint64_t key_hash = 0;
  uint64_t offset = 0;  // its blocks in the archive
  std::string_view blocks;
  bool returning = false;
  bool copyable = true;  // `blocks` is exactly this sample and means the same elsewhere

  const Field* find(std::string_view field) const;
};

// "jpg, cls", for an error that says what could have been asked for.
std::string names_of_fields(std::span<const Field> fields);

// A sample as tar blocks that mean the same anywhere: its own where it is copyable, new ones otherwise.
Status append_blocks(std::string& into, const Sample& sample);

struct ReadOptions {
  Archives archives = Archives::kOne;
  GroupOptions group;
};

// A group and the bytes it speaks of, joined into a Sample.
class SampleView {
 public:
  // `blocks` starts at the group's offset. The group and the blocks stay alive while the sample is used.
  const Sample* show(const Group& group, std::string_view blocks);

 private:
  Sample sample_;
  std::vector<Field> fields_;
};

class SampleReader {
 public:
  SampleReader(Window& window, const std::string& archive_name, ReadOptions options = {})
      : members_(window, archive_name, options.archives), grouper_(archive_name, options.group) {}

  // The next sample, or null at the end.
  Result<const Sample*> next();

  // Members that belong to no sample are counted; with this their blocks are also shown, between the samples
  // they stood between (those amid a sample's fields: behind it), each valid during the call. Set before the
  // first next().
  using OnLoose = std::function<Status(std::string_view blocks)>;
  void on_loose(OnLoose call) { on_loose_ = std::move(call); }

  uint64_t loose_members() const { return grouper_.loose_members(); }

 private:
  MemberReader members_;
  Grouper grouper_;
  OnLoose on_loose_;
  std::vector<std::string> held_loose_;  // met while a sample was under way
  SampleView view_;
};

// One sample's blocks, from an archive or made by append_blocks, as a sample again. The blocks stay alive and
// unmoved while it is used.
class SampleParser {
 public:
  explicit SampleParser(KeyRule key_rule) : key_rule_(key_rule) {}
  Result<const Sample*> parse(std::string_view blocks);

 private:
  const KeyRule key_rule_;
  Group group_;
  SampleView view_;
};

}  // namespace millrace::tar
