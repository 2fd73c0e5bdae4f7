// Finds faults of a shard, and writes a new shard of the samples that can be saved.
#include "shard/verify.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/crc.h"
#include "base/hash.h"
#include "base/text.h"
#include "net/url.h"
#include "shard/index_file.h"
#include "shard/salvage.h"

namespace millrace::shard {

std::string_view fault_name(Fault fault) {
  switch (fault) {
    case Fault::kTruncated:
      return "truncated";
    case Fault::kDamaged:
      return "damaged";
    case Fault::kDoubledField:
      return "doubled field";
    case Fault::kScatteredKey:
      return "scattered key";
    case Fault::kMissingField:
      return "missing field";
    case Fault::kStaleIndex:
      return "stale index";
    case Fault::kUnreadable:
      return "unreadable";
    case Fault::kUndecodable:
      return "undecodable";
  }
  return "damaged";
}

namespace {

bool has_field(const tar::Group& group, std::string_view field) {
  return std::ranges::any_of(group.fields, [&](const auto& one) { return group.field_name(one) == field; });
}

void note(Verdict& verdict, Problem problem) {
  ++verdict.problem_count;
  if (verdict.problems.size() < Verdict::kMostProblems) verdict.problems.push_back(std::move(problem));
}

void judge_sample(Verdict& verdict, const tar::Group& group, const std::vector<std::string>& expected) {
  if (group.returning) {
    note(verdict, {Fault::kScatteredKey, group.offset(),
                   fmt::format("key \"{}\" returns at byte {}: its members are not adjacent", group.key(),
                               group.offset())});
  }
  for (const tar::Group::Field& field : group.fields) {
    if (field.doubled) {
      note(verdict, {Fault::kDoubledField, field.header_offset,
                     fmt::format("sample \"{}\" has the field {} twice, again at byte {}", group.key(),
                                 group.field_name(field), field.header_offset)});
    } else {
      ++verdict.fields[std::string(group.field_name(field))];
    }
  }
  for (const std::string& field : expected) {
    if (!has_field(group, field)) {
      note(verdict,
           {Fault::kMissingField, group.offset(),
            fmt::format("sample \"{}\" at byte {} has no field {}", group.key(), group.offset(), field)});
    }
  }
}

// While the member's bytes are in sight. A member that the archive's end cuts is told of when it is passed.
Status judge_content(Verdict& verdict, const tar::Member& member, tar::Window& window,
                     const VerifyOptions& options) {
  const auto split = tar::split_name(member.name, options.input.read.group.key_rule);
  if (!options.check_content || !member.is_file || !split) return {};
  const std::string_view view = MR_TRY(window.view(member.header_offset, member.data_offset, member.size));
  if (view.size() < member.size) return {};
  const std::string field = lower_case(split->field);
  const auto sound = options.check_content(field, view.substr(0, member.size));
  if (sound) return {};
  note(verdict, {Fault::kUndecodable, member.header_offset,
                 fmt::format("member {} at byte {}: {}", printable(member.name), member.header_offset,
                             sound.error().message())});
  return {};
}

// Fields whose bytes are not those that were indexed, in the order of the shard.
std::vector<Problem> find_changed_fields(std::string_view archive, const tar::Index& index) {
  std::vector<Problem> changed;
  for (uint64_t sample = 0; sample < index.samples(); ++sample) {
    for (const tar::Index::Field& field : index.fields(sample)) {
      if (crc32c(archive.substr(field.offset, field.size)) == field.crc) continue;
      changed.push_back(
          {Fault::kDamaged, field.offset,
           fmt::format("field {} of sample {} at byte {}: its bytes are not those that were indexed",
                       field.field, sample, field.offset)});
    }
  }
  return changed;
}

// The index is sound and of this length, but the bytes are others. A few of them: the shard was damaged.
// Most: it is another shard.
void judge_changed(Verdict& verdict, const tar::Index& index) {
  if (index.compression() == tar::Compression::kNone) {
    const auto archive = MappedFile::open(verdict.shard);
    if (archive && archive->bytes().size() == index.tar_bytes()) {
      std::vector<Problem> changed = find_changed_fields(archive->bytes(), index);
      if (!changed.empty() && changed.size() <= index.samples() / 2) {
        for (Problem& problem : changed) note(verdict, std::move(problem));
        return;
      }
    }
  }
  note(verdict, {Fault::kStaleIndex, 0,
                 fmt::format("{} belongs to other bytes of the same length", index_path(verdict.shard))});
}

void judge_index(Verdict& verdict, const tar::ShardIdentity& shard) {
  const std::string path = index_path(verdict.shard);
  if (verdict.shard == kStandardStream || !file_exists(path)) return;
  verdict.has_index = true;
  auto index = load_index(verdict.shard);
  if (!index) {
    note(verdict, {Fault::kStaleIndex, 0, index.error().message()});
  } else if (index->shard() != shard) {
    judge_changed(verdict, *index);
  }
}

// What repair keeps in memory of each sample.
struct Saved {
  tar::Group group;
  bool beside_damage = false;
};

class Repair {
 public:
  Repair(const MappedFile& archive, const std::string& name, const VerifyOptions& options)
      : archive_(archive), name_(name), options_(options) {}

  Result<RepairReport> run(ShardFile& out) {
    MR_TRY(collect());
    choose_expected_fields();
    for (size_t i = 0; i < saved_.size(); ++i) {
      if (!absorbed_[i]) MR_TRY(write(saved_[i], out));
    }
    return std::move(report_);
  }

 private:
  Status collect() {
    tar::MappedWindow window(archive_.bytes());
    Salvage salvage(window, name_, options_.input.read,
                    {[this](const tar::Group& group, bool beside_damage) {
                       take(group, beside_damage);
                       return Status();
                     },
                     [this](Problem problem) { report_.lost.push_back(std::move(problem.text)); },
                     {}});
    MR_TRY(salvage.run());
    if (salvage.loose_members() > 0) {
      report_.lost.push_back(fmt::format(
          "{} members that belong to no sample (directories, links, other files)", salvage.loose_members()));
    }
    return {};
  }

  void take(const tar::Group& group, bool beside_damage) {
    Saved saved{group, beside_damage};
    // A member that the end of the file cuts is not a member.
    std::erase_if(saved.group.fields, [&](const auto& field) {
      return field.data_offset + field.size > archive_.bytes().size();
    });
    std::erase_if(saved.group.fields, [&](const auto& field) {
      if (field.doubled) {
        report_.lost.push_back(fmt::format("second field {} of sample \"{}\" at byte {}",
                                           group.field_name(field), group.key(), field.header_offset));
      }
      return field.doubled;
    });
    if (saved.group.fields.empty()) return;
    const auto [first, is_new] = by_key_.try_emplace(std::string(group.key()), saved_.size());
    if (!is_new) gather(saved_[first->second], saved);
    saved_.push_back(std::move(saved));
    absorbed_.push_back(!is_new);
  }

  void gather(Saved& into, const Saved& from) {
    ++report_.gathered_samples;
    for (const tar::Group::Field& field : from.group.fields) {
      if (has_field(into.group, from.group.field_name(field))) {
        report_.lost.push_back(fmt::format("second field {} of sample \"{}\" at byte {}",
                                           from.group.field_name(field), from.group.key(),
                                           field.header_offset));
        continue;
      }
      tar::Group::Field moved = field;
      moved.name_at = static_cast<uint32_t>(into.group.names.size());
      into.group.names += from.group.name(field);
      moved.field_at = static_cast<uint32_t>(into.group.names.size());
      into.group.names += from.group.field_name(field);
      into.group.fields.push_back(moved);
    }
    into.group.self_contained &= from.group.self_contained;
  }

  // A sample next to damage is whole if it has what most samples have.
  void choose_expected_fields() {
    std::map<std::string, size_t> counts;
    size_t samples = 0;
    for (size_t i = 0; i < saved_.size(); ++i) {
      if (absorbed_[i]) continue;
      ++samples;
      for (const auto& field : saved_[i].group.fields)
        ++counts[std::string(saved_[i].group.field_name(field))];
    }
    for (const auto& [field, count] : counts) {
      if (2 * count > samples) expected_.push_back(field);
    }
  }

  Status write(const Saved& saved, ShardFile& out) {
    const tar::Group& group = saved.group;
    for (const std::string& field : expected_) {
      if (saved.beside_damage && !has_field(group, field)) {
        report_.lost.push_back(
            fmt::format("sample \"{}\": its field {} was lost in the damage", group.key(), field));
        return {};
      }
    }
    std::vector<tar::Field> fields;
    for (const tar::Group::Field& field : group.fields) {
      const uint64_t blocks_bytes = field.end_offset() - field.header_offset;
      const bool whole_blocks = group.self_contained && field.end_offset() <= archive_.bytes().size();
      fields.push_back(
          {group.field_name(field), group.name(field), archive_.bytes().substr(field.data_offset, field.size),
           whole_blocks ? archive_.bytes().substr(field.header_offset, blocks_bytes) : std::string_view(),
           field.data_offset, false});
      if (!options_.check_content) continue;
      const auto sound = options_.check_content(fields.back().field, fields.back().bytes);
      if (sound) continue;
      report_.lost.push_back(fmt::format("sample \"{}\": its field {}: {}", group.key(), fields.back().field,
                                         sound.error().message()));
      return {};
    }
    tar::Sample sample;
    sample.key = group.key();
    sample.fields = fields;
    sample.key_hash = group.key_hash;
    sample.copyable = false;
    ++report_.kept_samples;
    return out.add(sample);
  }

  const MappedFile& archive_;
  const std::string& name_;
  const VerifyOptions& options_;
  std::vector<Saved> saved_;
  std::vector<bool> absorbed_;  // its fields went to an earlier sample of the same key
  std::unordered_map<std::string, size_t> by_key_;
  std::vector<std::string> expected_;
  RepairReport report_;
};

// The tar as plain bytes that can be mapped: the file itself, or a temporary copy of what it unpacks to.
Result<MappedFile> map_plain(const std::string& shard, const std::string& temporary_directory,
                             const VerifyOptions& options, RepairReport& report) {
  const auto input = MR_TRY(ShardInput::open(shard, options.input));
  if (input->compression() == tar::Compression::kNone && shard != kStandardStream && !net::is_url(shard) &&
      !is_pipe(shard))
    return MappedFile::open(shard);
  File copy = MR_TRY(File::make_temporary(temporary_directory));
  std::vector<std::byte> buffer(1 << 20);
  while (true) {
    auto got = input->plain().read_some(buffer);
    if (!got) {
      report.lost.push_back(got.error().message() + "; samples shortly before that may hold wrong bytes");
      break;
    }
    if (*got == 0) break;
    MR_TRY(copy.write_all({reinterpret_cast<const char*>(buffer.data()), *got}));
  }
  return MappedFile::map(copy);
}

}  // namespace

Result<Verdict> verify_shard(const std::string& shard, const VerifyOptions& options) {
  Verdict verdict;
  verdict.shard = shard;
  auto input = ShardInput::open(shard, options.input);
  if (!input && input.error().code() == Code::kTruncated) {
    note(verdict, {Fault::kTruncated, 0, input.error().message()});
    return verdict;
  }
  if (!input) return input.take_error();
  Hasher hasher;
  tar::ShardIdentity identity;
  (*input)->stored().tap([&](std::string_view bytes) {
    hasher.add(bytes);
    identity.stored_bytes += bytes.size();
  });
  Salvage salvage((*input)->window(), (*input)->name(), options.input.read,
                  {[&](const tar::Group& group, bool) {
                     judge_sample(verdict, group, options.expected_fields);
                     return Status();
                   },
                   [&](Problem problem) { note(verdict, std::move(problem)); },
                   [&](const tar::Member& member) {
                     return judge_content(verdict, member, (*input)->window(), options);
                   }});
  MR_TRY(salvage.run());
  // What lies behind the end blocks belongs to the content hash too.
  MR_TRY(skip_rest((*input)->stored()));
  identity.content_hash = hasher.value();
  verdict.samples = salvage.samples();
  verdict.members = salvage.members();
  verdict.loose_members = salvage.loose_members();
  verdict.tar_bytes = (*input)->window().end();
  // Tar pads to some kilobytes. Megabytes of zeros are a download that was interrupted after its space was
  // reserved.
  constexpr uint64_t kMostPadding = 1 << 20;
  if (verdict.problem_count == 0 && verdict.tar_bytes > salvage.end_offset() + kMostPadding) {
    note(verdict, {Fault::kTruncated, salvage.end_offset(),
                   fmt::format("{} zero bytes follow the end at byte {}: an interrupted copy?",
                               verdict.tar_bytes - salvage.end_offset(), salvage.end_offset())});
  }
  judge_index(verdict, identity);
  if (options.input.progress != nullptr) options.input.progress->add(0, verdict.samples);
  return verdict;
}

Result<RepairReport> repair_shard(const std::string& shard, const std::string& repaired,
                                  const VerifyOptions& options) {
  RepairReport unpacking;
  const MappedFile archive = MR_TRY(map_plain(shard, directory_of(repaired), options, unpacking));
  OutputOptions output;
  output.key_rule = options.input.read.group.key_rule;
  const auto out = MR_TRY(ShardFile::create(repaired, output));
  RepairReport report = MR_TRY(Repair(archive, shard, options).run(*out));
  if (report.kept_samples == 0)
    return make_error(Code::kCorrupt, "{}: there is no whole sample to save", shard);
  MR_TRY(out->finish());
  report.lost.insert(report.lost.begin(), unpacking.lost.begin(), unpacking.lost.end());
  return report;
}

}  // namespace millrace::shard
