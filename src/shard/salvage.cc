// Implements Salvage: after damage, searches for the next valid header.
#include "shard/salvage.h"

namespace millrace::shard {

namespace {

tar::GroupOptions marking(tar::GroupOptions options) {
  options.on_fault = tar::OnFault::kMark;
  return options;
}

Fault fault_of(Code code) {
  switch (code) {
    case Code::kTruncated:
      return Fault::kTruncated;
    case Code::kUnsupported:
      return Fault::kUnreadable;
    default:
      return Fault::kDamaged;
  }
}

bool is_about_content(Code code) {
  return code == Code::kCorrupt || code == Code::kTruncated || code == Code::kUnsupported ||
         code == Code::kTooLarge;
}

// A name that fills its field was cut to fit: the whole of it stood in an extension header that is gone.
bool has_cut_name(const tar::Member& member) {
  return member.name.data() == member.header->name && member.name.size() == sizeof member.header->name;
}

}  // namespace

Salvage::Salvage(tar::Window& window, std::string name, const tar::ReadOptions& options, Calls calls)
    : window_(window),
      members_(window, name, options.archives),
      grouper_(name, marking(options.group)),
      calls_(std::move(calls)) {}

Status Salvage::run() {
  while (true) {
    const uint64_t offset_before = members_.offset();
    auto member = members_.next();
    if (!member) {
      Error error = member.take_error();
      if (!is_about_content(error.code())) return error;
      const Fault fault = fault_of(error.code());
      const uint64_t offset = members_.offset();
      calls_.problem({fault, offset, error.message()});
      if (grouper_.finish()) MR_TRY(finish_group(true));
      if (fault == Fault::kTruncated) return {};
      // The block that was complained about is passed over, unless it is data behind end blocks: that may be
      // whole.
      const bool behind_end = members_.offset() != offset_before;
      auto found = find_next_header(behind_end ? offset : offset + tar::kBlock);
      // A decompressor that stumbled gives nothing more.
      if (!found && is_about_content(found.error().code())) return {};
      if (!found) return found.take_error();
      if (!*found) return {};
      damage_before_ = true;
      resumed_ = true;
      continue;
    }
    if (*member == nullptr) break;
    ++members_seen_;
    if (std::exchange(resumed_, false) && has_cut_name(**member)) {
      calls_.problem(
          {Fault::kDamaged, (*member)->header_offset,
           fmt::format("member at byte {}: its long name was lost in the damage", (*member)->header_offset)});
      continue;
    }
    if (calls_.member) MR_TRY(calls_.member(**member));
    const tar::Grouper::Added added = MR_TRY(grouper_.add(**member));
    if (added == tar::Grouper::Added::kCompleted) MR_TRY(finish_group(false));
  }
  if (grouper_.finish()) MR_TRY(finish_group(false));
  return {};
}

Status Salvage::finish_group(bool beside_damage) {
  const bool damaged = beside_damage || std::exchange(damage_before_, false);
  return calls_.sample(grouper_.completed(), damaged);
}

Result<bool> Salvage::find_next_header(uint64_t at) {
  while (true) {
    const std::string_view view = MR_TRY(window_.view(at, at, 64 * tar::kBlock));
    if (view.size() < tar::kBlock) return false;
    for (size_t block = 0; block + tar::kBlock <= view.size(); block += tar::kBlock) {
      const auto& header = *reinterpret_cast<const tar::Header*>(view.data() + block);
      if (header.name[0] != 0 && tar::checksum_matches(header)) {
        members_.jump(at + block);
        return true;
      }
    }
    at += view.size() / tar::kBlock * tar::kBlock;
  }
}

}  // namespace millrace::shard
