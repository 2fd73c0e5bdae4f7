// Implements SampleReader: groups members and gives them with their bytes.
#include "tar/sample.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "tar/writer.h"

namespace millrace::tar {

const Field* Sample::find(std::string_view field) const {
  for (const Field& candidate : fields) {
    if (candidate.field == field) return &candidate;
  }
  return nullptr;
}

std::string names_of_fields(std::span<const Field> fields) {
  constexpr size_t kMostNames = 20;
  std::vector<std::string> names;
  for (const Field& field : fields.first(std::min(fields.size(), kMostNames)))
    names.push_back(printable(field.field));
  if (fields.size() > kMostNames) names.push_back(fmt::format("{} more", fields.size() - kMostNames));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

Status append_blocks(std::string& into, const Sample& sample) {
  if (sample.copyable) {
    into += sample.blocks;
    return {};
  }
  for (const Field& field : sample.fields) {
    if (!field.blocks.empty()) {
      into += field.blocks;
      continue;
    }
    into += MR_TRY(make_header({.name = field.name, .size = field.bytes.size()}));
    into += field.bytes;
    into.resize(padded(into.size()));
  }
  return {};
}

const Sample* SampleView::show(const Group& group, std::string_view blocks) {
  const uint64_t offset = group.offset();
  fields_.clear();
  for (const Group::Field& field : group.fields) {
    std::string_view own_blocks;
    if (group.self_contained) {
      own_blocks = blocks.substr(field.header_offset - offset, field.end_offset() - field.header_offset);
    }
    fields_.push_back({group.field_name(field), group.name(field),
                       blocks.substr(field.data_offset - offset, field.size), own_blocks, field.data_offset,
                       field.doubled});
  }
  sample_ = {group.key(), fields_, group.ordinal,   group.key_hash,
             offset,      blocks,  group.returning, group.self_contained && !group.has_gaps};
  return &sample_;
}

namespace {

// A global header in front of a member would act on whatever follows it elsewhere.
std::string without_global_headers(std::string_view blocks) {
  std::string kept;
  while (blocks.size() >= kBlock) {
    const auto& header = *reinterpret_cast<const Header*>(blocks.data());
    if (!is_extension(header.type)) break;
    const auto body = static_cast<uint64_t>(number_field(header.size, sizeof header.size).value_or(0));
    const std::string_view extension = blocks.substr(0, kBlock + padded(body));
    if (header.type != kTypePaxGlobal) kept += extension;
    blocks.remove_prefix(extension.size());
  }
  kept += blocks;
  return kept;
}

}  // namespace

Result<const Sample*> SampleReader::next() {
  for (const std::string& blocks : std::exchange(held_loose_, {})) MR_TRY(on_loose_(blocks));
  while (true) {
    const Member* member = MR_TRY(members_.next_keeping(grouper_.pending_offset(members_.offset())));
    const bool completed = member == nullptr ? grouper_.finish() : false;
    if (member == nullptr && !completed) return nullptr;
    const Grouper::Added added = completed ? Grouper::Added::kCompleted : MR_TRY(grouper_.add(*member));
    if (added == Grouper::Added::kCompleted) {
      const Group& group = grouper_.completed();
      const std::string_view blocks =
          MR_TRY(members_.bytes(group.offset(), group.end_offset() - group.offset()));
      return view_.show(group, blocks);
    }
    if (added == Grouper::Added::kLoose && on_loose_) {
      const uint64_t offset = member->header_offset;
      const uint64_t size = member->end_offset() - offset;
      const uint64_t keep = grouper_.pending_offset(offset);
      const std::string_view blocks = MR_TRY(members_.bytes_keeping(keep, offset, size));
      if (keep < offset) {
        held_loose_.push_back(without_global_headers(blocks));
      } else {
        MR_TRY(on_loose_(without_global_headers(blocks)));
      }
    }
  }
}

Result<const Sample*> SampleParser::parse(std::string_view blocks) {
  Parser parser(Archives::kOne);
  group_.fields.clear();
  group_.names.clear();
  while (parser.offset() < blocks.size()) {
    const Parser::Found found = MR_TRY(parser.step(blocks.substr(parser.offset())));
    const Member& member = parser.member();
    if (found != Parser::Found::kMember || member.end_offset() > blocks.size())
      return make_error(Code::kCorrupt, "a stored sample does not read back at byte {}", parser.offset());
    const std::optional<SplitName> split = find_place(member, key_rule_);
    if (!split) continue;  // lies between the fields of an archive and belongs to none of them
    if (group_.fields.empty()) {
      group_.start(*split);
    } else if (group_.key() != split->key) {
      return make_error(Code::kCorrupt, "what should be one sample holds the keys {} and {}",
                        printable(group_.key()), printable(split->key));
    }
    group_.append(member, *split);
  }
  if (group_.fields.empty()) return make_error(Code::kCorrupt, "a stored sample has no fields");
  return view_.show(group_, blocks);
}

}  // namespace millrace::tar
