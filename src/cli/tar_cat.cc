// millrace tar cat: shards to one stream or new shards, with samples chosen, mixed, shuffled and renamed.

#include "base/number.h"
#include "cli/common.h"
#include "shard/stream.h"

namespace millrace::cli {

namespace {

struct CatFlags {
  InputFlags input;
  OutputFlags output;
  std::string fields;
  std::string slice;
  bool mix = false;
  std::string weights;
  uint64_t shuffle = 0;
  uint64_t seed = 0;
  bool gather = false;
  uint64_t memory = uint64_t{1} << 30;
  std::string rekey;
};

using Stream = std::unique_ptr<shard::SampleStream>;

Result<std::vector<double>> parse_weights(const std::string& text, size_t inputs) {
  std::vector<double> weights;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const auto weight = parse_number<double>(rest.substr(0, comma));
    if (!weight || *weight <= 0 || *weight > 1e12) {
      return make_error(Code::kInvalid, "\"{}\" is not a list of weights", text)
          .with_hint("for example --weights 3,1");
    }
    weights.push_back(*weight);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (weights.size() != inputs) {
    return make_error(Code::kInvalid, "{} weights for {} inputs", weights.size(), inputs)
        .with_hint("one weight per argument; quote brace ranges so that they stay one");
  }
  return weights;
}

// The streams at the start of all stages; what they counted is asked for at the end.
struct Inputs {
  std::vector<shard::InputStream*> plain;
  std::vector<shard::GatherStream*> gathered;
};

Result<Stream> open_input(const CatFlags& flags, std::vector<std::string> names,
                          const shard::InputOptions& options, Inputs& inputs) {
  if (flags.gather) {
    MR_TRY(check_memory(flags.memory));
    auto stream = std::make_unique<shard::GatherStream>(
        std::move(names), options,
        gather_options(flags.output, flags.memory, shard::GatherOptions::When::kAlways));
    inputs.gathered.push_back(stream.get());
    return Stream(std::move(stream));
  }
  auto stream = std::make_unique<shard::InputStream>(std::move(names), options);
  inputs.plain.push_back(stream.get());
  return Stream(std::move(stream));
}

Result<Stream> open_inputs(Shell& shell, const CatFlags& flags, Inputs& inputs) {
  const shard::InputOptions options = MR_TRY(flags.input.options(shell));
  std::vector<std::string> all = MR_TRY(flags.input.names(shell));
  if (!flags.mix && flags.weights.empty()) return open_input(flags, std::move(all), options, inputs);
  std::vector<double> weights(flags.input.shards.size(), 1);
  if (!flags.weights.empty()) weights = MR_TRY(parse_weights(flags.weights, flags.input.shards.size()));
  std::vector<shard::MixStream::Part> parts;
  for (size_t i = 0; i < flags.input.shards.size(); ++i) {
    std::vector<std::string> names = MR_TRY(shard::expand_names(flags.input.shards[i], options.stores));
    parts.push_back({MR_TRY(open_input(flags, std::move(names), options, inputs)), weights[i]});
  }
  return Stream(std::make_unique<shard::MixStream>(std::move(parts)));
}

Result<Stream> build(Shell& shell, const CatFlags& flags, Inputs& inputs) {
  Stream stream = MR_TRY(open_inputs(shell, flags, inputs));
  if (!flags.slice.empty())
    stream = std::make_unique<shard::SliceStream>(std::move(stream), MR_TRY(shard::parse_slice(flags.slice)));
  if (flags.shuffle > 0) {
    MR_TRY(check_memory(flags.memory));
    const shard::ShuffleBuffer buffer{flags.shuffle, flags.memory, flags.seed,
                                      MR_TRY(tar::parse_key_rule(flags.input.key_rule))};
    stream = std::make_unique<shard::ShuffleStream>(std::move(stream), buffer);
  }
  if (!flags.fields.empty())
    stream = std::make_unique<shard::SelectStream>(std::move(stream),
                                                   MR_TRY(shard::parse_field_choices(flags.fields)));
  if (!flags.rekey.empty()) {
    const shard::OutputName pattern = MR_TRY(shard::OutputName::parse(flags.rekey));
    if (!pattern.numbered())
      return make_error(Code::kInvalid, "--rekey {} has no %d: all keys would be the same", flags.rekey);
    stream = std::make_unique<shard::RekeyStream>(std::move(stream), pattern);
  }
  return stream;
}

Status run(Shell& shell, const CatFlags& flags) {
  const Stopwatch watch;
  Inputs inputs;
  const Stream samples = MR_TRY(build(shell, flags, inputs));
  const auto writer = MR_TRY(flags.output.writer(shell, flags.input));
  const auto bar = shell.bar("copying");
  while (true) {
    const tar::Sample* sample = MR_TRY(samples->next());
    if (sample == nullptr) break;
    MR_TRY(writer->add(*sample));
  }
  const auto shards = MR_TRY(writer->finish());
  uint64_t loose = 0;
  for (const shard::InputStream* input : inputs.plain) loose += input->loose_members();
  for (const shard::GatherStream* input : inputs.gathered) {
    loose += input->loose_members();
    note_gathered(shell, input->report());
  }
  note_loose(shell, loose);
  report_shards(shell, flags.output, shards, watch);
  return {};
}

}  // namespace

void add_tar_cat(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("cat", "Samples of several shards as one stream or as new shards");
  verb->fallthrough();
  auto flags = std::make_shared<CatFlags>();
  flags->input.add_to(*verb);
  flags->output.add_to(*verb, shell);
  verb->add_option("-f,--fields", flags->fields, "Fields to keep, renamed with =: \"jpg;jpeg=image cls\"");
  verb->add_option("--slice", flags->slice, "Samples begin:end:step of the input");
  verb->add_flag("--mix", flags->mix, "Take one sample of each argument by turns");
  verb->add_option("--weights", flags->weights, "Mix the arguments in these proportions, for example 3,1");
  verb->add_option("--shuffle", flags->shuffle, "Shuffle through a buffer of N samples")->type_name("N");
  verb->add_option("--seed", flags->seed, "Which random order")->capture_default_str();
  verb->add_flag("--gather", flags->gather, "Bring together samples whose members are scattered");
  add_bytes(*verb, "--memory", flags->memory,
            "The limit of the shuffle buffer, and of what --gather holds, in bytes (default 1GiB)");
  verb->add_option("--rekey", flags->rekey, "New keys by position, for example %09d or train/%06d");
  verb->footer(
      "Examples:\n"
      "  millrace tar cat 'train-{000000..000009}.tar' -o first.tar\n"
      "  millrace tar cat -f 'jpg;jpeg=image cls' old-*.tar -o new-%06d.tar\n"
      "  millrace tar cat --weights 3,1 'photos-@000010.tar' 'drawings-@000004.tar' -o mix-%06d.tar\n"
      "  millrace tar cat --slice 0:1000 train-000000.tar -o - | tar -t");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
