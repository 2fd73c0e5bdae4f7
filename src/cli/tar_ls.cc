// millrace tar ls: samples or members with their sizes.
#include "base/text.h"
#include "cli/common.h"
#include "shard/scan.h"

namespace millrace::cli {

namespace {

struct LsFlags {
  InputFlags input;
  bool samples = false;
  bool members = false;
};

Status show_sample(const Shell& shell, const tar::Group& group) {
  uint64_t bytes = 0;
  for (const auto& field : group.fields) bytes += field.size;
  if (shell.json) {
    Json fields = Json::object();
    for (const auto& field : group.fields) fields[std::string(group.field_name(field))] = field.size;
    Shell::print({{"key", group.key()}, {"bytes", bytes}, {"offset", group.offset()}, {"fields", fields}});
    return {};
  }
  std::string fields;
  for (const auto& field : group.fields)
    fields += fmt::format(" {}:{}", printable(group.field_name(field)), field.size);
  fmt::print("{:>12}  {} {}\n", bytes, printable(group.key()), fields);
  return {};
}

Status show_member(const Shell& shell, const tar::Member& member) {
  if (shell.json) {
    Shell::print({{"name", member.name},
                  {"bytes", member.size},
                  {"offset", member.header_offset},
                  {"file", member.is_file}});
  } else {
    fmt::print("{:>12}  {}\n", member.size, printable(member.name));
  }
  return {};
}

Status run(Shell& shell, const LsFlags& flags) {
  const shard::InputOptions options = MR_TRY(flags.input.options(shell));
  const std::vector<std::string> names = MR_TRY(shard::expand_names(flags.input.shards, options.stores));
  shard::ScanCalls calls;
  if (flags.members) {
    calls.member = [&](const tar::Member& member) { return show_member(shell, member); };
  } else {
    calls.sample = [&](const tar::Group& group) { return show_sample(shell, group); };
  }
  for (const std::string& name : names) {
    if (names.size() > 1 && !shell.json) fmt::print("{}:\n", name);
    MR_TRY(shard::scan_shard(name, options, calls));
  }
  return {};
}

}  // namespace

void add_tar_ls(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("ls", "List samples or members");
  verb->fallthrough();
  auto flags = std::make_shared<LsFlags>();
  flags->input.add_to(*verb);
  CLI::Option* samples = verb->add_flag("--samples", flags->samples,
                                        "List samples: bytes, key, fields with sizes (the default)");
  verb->add_flag("--members", flags->members, "List members as they lie in the archive")->excludes(samples);
  verb->footer(
      "Examples:\n"
      "  millrace tar ls train-000000.tar\n"
      "  millrace tar ls --members 'train-{000000..000009}.tar'\n"
      "  millrace tar ls --json train-000000.tar | head -3");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
