// millrace tar split and merge: the same members in more or fewer shards, none lost.
#include "cli/common.h"
#include "shard/stream.h"

namespace millrace::cli {

namespace {

struct SplitFlags {
  InputFlags input;
  OutputFlags output;
  bool gather = false;
  uint64_t memory = uint64_t{1} << 30;
};

// Members of no sample travel along: nothing that was in the input is missing in the output.
template <typename Stream>
Status copy(Stream& samples, shard::ShardWriter& writer) {
  samples.on_loose([&](std::string_view blocks) { return writer.add_loose(blocks); });
  while (true) {
    const tar::Sample* sample = MR_TRY(samples.next());
    if (sample == nullptr) return {};
    MR_TRY(writer.add(*sample));
  }
}

Status run(Shell& shell, const SplitFlags& flags) {
  const Stopwatch watch;
  const shard::InputOptions options = MR_TRY(flags.input.options(shell));
  const std::vector<std::string> names = MR_TRY(flags.input.names(shell));
  const auto writer = MR_TRY(flags.output.writer(shell, flags.input));
  const auto bar = shell.bar("copying");
  uint64_t loose = 0;
  if (flags.gather) {
    MR_TRY(check_memory(flags.memory));
    shard::GatherStream samples(
        names, options, gather_options(flags.output, flags.memory, shard::GatherOptions::When::kAlways));
    MR_TRY(copy(samples, *writer));
    loose = samples.loose_members();
    note_gathered(shell, samples.report());
  } else {
    shard::InputStream samples(names, options);
    MR_TRY(copy(samples, *writer));
    loose = samples.loose_members();
  }
  const auto shards = MR_TRY(writer->finish());
  report_shards(shell, flags.output, shards, watch, {{"loose_members", loose}});
  return {};
}

enum class Shards { kSeveral, kAny };

Status run_split(Shell& shell, const SplitFlags& flags, Shards shards) {
  const shard::OutputName name = MR_TRY(flags.output.name(shell));
  if (shards == Shards::kSeveral && !name.numbered()) {
    return make_error(Code::kInvalid, "split makes several shards: \"{}\" has no %06d", flags.output.output)
        .with_hint("for one shard use millrace tar merge");
  }
  return run(shell, flags);
}

void add_verb(CLI::App& verb, Shell& shell, Shards shards) {
  verb.fallthrough();
  auto flags = std::make_shared<SplitFlags>();
  flags->input.add_to(verb);
  flags->output.add_to(verb, shell);
  add_gather(verb, flags->gather, flags->memory);
  verb.callback([&shell, flags, shards] {
    shell.action = [&shell, flags, shards] { return run_split(shell, *flags, shards); };
  });
}

}  // namespace

void add_tar_split(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("split", "Cut shards into smaller ones, by size or count");
  verb->footer(
      "Examples:\n"
      "  millrace tar split big.tar --max-bytes 200MB -o small-%06d.tar\n"
      "  millrace tar split big.tar --max-samples 5000 -o small-%06d.tar");
  add_verb(*verb, shell, Shards::kSeveral);
}

void add_tar_merge(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("merge", "Join shards into one, or into fewer larger ones");
  verb->footer(
      "Examples:\n"
      "  millrace tar merge 'small-*.tar' -o big.tar\n"
      "  millrace tar merge 'small-@000100.tar' --max-bytes 3GB -o large-%06d.tar");
  add_verb(*verb, shell, Shards::kAny);
}

}  // namespace millrace::cli
