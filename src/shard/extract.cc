// Extracts files. Every path component is opened by itself, below the one before, never through a link.
#include "shard/extract.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/ids.h"
#include "base/text.h"

namespace millrace::shard {

namespace {

Result<std::vector<std::string>> safe_parts(const std::string_view whole) {
  std::string_view name = whole;
  const auto refused = [&](std::string_view why) {
    return make_error(Code::kDenied, "member \"{}\" {}: it is not extracted", printable(whole), why)
        .with_hint("look at the archive with millrace tar ls --members");
  };
  if (name.starts_with('/')) return refused("has an absolute name");
  if (name.find('\0') != std::string_view::npos) return refused("has a NUL in its name");
  std::vector<std::string> parts;
  while (!name.empty()) {
    const size_t slash = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, slash);
    name.remove_prefix(std::min(slash + 1, name.size()));
    if (part == "..") return refused("climbs out with ..");
    if (!part.empty() && part != ".") parts.emplace_back(part);
  }
  return parts;
}

class Extraction {
 public:
  Extraction(File top, Existing existing) : top_(std::move(top)), existing_(existing) {}

  // A file under way: it gets its name when it is whole.
  struct Pending {
    File directory;
    File file;
    std::string temporary_name;
    std::string name;
    ~Pending() {
      if (!temporary_name.empty()) ::unlinkat(directory.descriptor(), temporary_name.c_str(), 0);
    }
  };

  Result<std::unique_ptr<Pending>> create(const tar::Member& member) {
    const std::vector<std::string> parts = MR_TRY(safe_parts(member.name));
    if (parts.empty())
      return make_error(Code::kDenied, "member \"{}\" names no file", printable(member.name));
    auto pending = std::make_unique<Pending>();
    pending->directory = MR_TRY(open_directory({parts.begin(), parts.end() - 1}));
    pending->name = parts.back();
    const std::string temporary = fmt::format(".millrace-{}.part", make_id());
    const int descriptor =
        ::openat(pending->directory.descriptor(), temporary.c_str(),
                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (member.permissions() & 0777) | 0600);
    const std::string path = fmt::format("{}/{}", pending->directory.name(), parts.back());
    if (descriptor < 0) return make_system_error(errno, "creating " + path);
    pending->temporary_name = temporary;
    pending->file = File(descriptor, path);
    return pending;
  }

  Status finish(Pending& pending) {
    const int directory = pending.directory.descriptor();
    const unsigned flags = existing_ == Existing::kRefuse ? RENAME_NOREPLACE : 0;
    if (::renameat2(directory, pending.temporary_name.c_str(), directory, pending.name.c_str(), flags) != 0) {
      if (errno == EEXIST) {
        return make_error(Code::kExists, "{} exists", printable(pending.file.name()))
            .with_hint("replace files with --overwrite");
      }
      return make_system_error(errno, "creating " + pending.file.name());
    }
    pending.temporary_name.clear();
    return {};
  }

  Status make_directory(const tar::Member& member) {
    const std::vector<std::string> parts = MR_TRY(safe_parts(member.name));
    MR_TRY(open_directory(parts));
    return {};
  }

 private:
  Result<File> open_directory(const std::vector<std::string>& parts) {
    const int copy = ::fcntl(top_.descriptor(), F_DUPFD_CLOEXEC, 3);
    if (copy < 0) return make_system_error(errno, "opening " + top_.name());
    File directory(copy, top_.name());
    for (const std::string& part : parts) {
      const std::string path = fmt::format("{}/{}", directory.name(), part);
      if (::mkdirat(directory.descriptor(), part.c_str(), 0777) != 0 && errno != EEXIST) {
        return make_system_error(errno, "creating directory " + path);
      }
      const int next =
          ::openat(directory.descriptor(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (next < 0) {
        return make_error(Code::kDenied, "{} is in the way: not a directory, or a link", path);
      }
      directory = File(next, path);
    }
    return directory;
  }

  File top_;
  const Existing existing_;
};

Result<File> open_top(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return make_system_error(errno, "creating directory " + directory);
  }
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return make_system_error(errno, "opening directory " + directory);
  return File(descriptor, directory);
}

bool is_wanted(const tar::Member& member, const ExtractOptions& options) {
  if (options.fields.empty()) return true;
  const auto split = tar::split_name(member.name, options.input.read.group.key_rule);
  if (!split) return false;
  return std::ranges::find(options.fields, lower_case(split->field)) != options.fields.end();
}

Result<ExtractReport> count_files(ShardInput& input, const ExtractOptions& options) {
  tar::MemberReader members = input.members(options.input.read.archives);
  ExtractReport report;
  while (true) {
    const tar::Member* member = MR_TRY(members.next());
    if (member == nullptr) return report;
    if (!member->is_file && !member->is_directory) ++report.passed_over;
    if (!member->is_file || !is_wanted(*member, options)) continue;
    MR_TRY(safe_parts(member->name));
    report.bytes += member->size;
    ++report.files;
  }
}

}  // namespace

Result<ExtractReport> extract_shard(const std::string& shard, const std::string& directory,
                                    const ExtractOptions& options) {
  const auto input = MR_TRY(ShardInput::open(shard, options.input));
  if (options.dry_run) return count_files(*input, options).within(shard);
  Extraction extraction(MR_TRY(open_top(directory)), options.existing);
  tar::MemberReader members = input->members(options.input.read.archives);
  ExtractReport report;
  while (true) {
    const tar::Member* member = MR_TRY(members.next());
    if (member == nullptr) return report;
    if (member->is_directory && options.fields.empty()) {
      MR_TRY(extraction.make_directory(*member).within(shard));
      continue;
    }
    if (!member->is_file) {
      if (!member->is_directory) ++report.passed_over;
      continue;
    }
    if (!is_wanted(*member, options)) continue;
    const timespec times[2] = {{0, UTIME_OMIT}, {member->mtime_seconds(), 0}};
    const auto pending = MR_TRY(extraction.create(*member).within(shard));
    File& file = pending->file;
    while (true) {
      const std::string_view piece = MR_TRY(members.next_piece());
      if (piece.empty()) break;
      MR_TRY(file.write_all(piece));
      report.bytes += piece.size();
    }
    ::futimens(file.descriptor(), times);
    MR_TRY(extraction.finish(*pending));
    ++report.files;
  }
}

}  // namespace millrace::shard
