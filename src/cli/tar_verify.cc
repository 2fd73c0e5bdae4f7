// millrace tar verify: what is wrong with shards, and with --repair a new shard of what can be saved.
#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "cli/colour.h"
#include "cli/copying.h"
#include "decode/image_check.h"
#include "net/url.h"
#include "shard/verify.h"

namespace millrace::cli {

namespace {

struct VerifyFlags {
  InputFlags input;
  std::string fields;
  bool decode = false;
  bool repair = false;
  std::string output;
};

// shard.tar -> shard.repaired.tar, shard.tgz -> shard.repaired.tgz, shard.tar.bz2 -> shard.repaired.tar
std::string repaired_name(const std::string& shard) {
  const size_t base = shard.rfind('/') == std::string::npos ? 0 : shard.rfind('/') + 1;
  const size_t dot = shard.find('.', base);
  const bool keeps_ending =
      dot != std::string::npos && tar::compression_for_name(shard) != tar::Compression::kNone;
  return shard.substr(0, dot) + ".repaired" + (keeps_ending ? shard.substr(dot) : ".tar");
}

Json as_json(const shard::Verdict& verdict) {
  Json problems = Json::array();
  for (const shard::Problem& problem : verdict.problems) {
    problems.push_back(
        {{"fault", shard::fault_name(problem.fault)}, {"offset", problem.offset}, {"text", problem.text}});
  }
  Json fields = Json::object();
  for (const auto& [field, count] : verdict.fields) fields[field] = count;
  return {{"shard", verdict.shard},
          {"ok", verdict.problem_count == 0},
          {"samples", verdict.samples},
          {"members", verdict.members},
          {"loose_members", verdict.loose_members},
          {"bytes", verdict.tar_bytes},
          {"index", verdict.has_index},
          {"fields", fields},
          {"problem_count", verdict.problem_count},
          {"problems", problems}};
}

void print_verdict(const shard::Verdict& verdict) {
  std::string fields;
  for (const auto& [field, count] : verdict.fields) {
    fields += count == verdict.samples
                  ? fmt::format(" {}", printable(field))
                  : fmt::format(" {}({} of {})", printable(field), count, verdict.samples);
  }
  const std::string judged = verdict.problem_count == 0 ? paint(Stream::kOutput, Colour::kGreen, "ok")
                                                        : paint(Stream::kOutput, Colour::kRed, "BAD");
  fmt::print("{}: {}: {} samples,{}{}\n", verdict.shard, judged, format_count(verdict.samples),
             fields.empty() ? " no fields" : fields, verdict.has_index ? ", indexed" : ", no index");
  constexpr size_t kShown = 20;
  const size_t shown = std::min(verdict.problems.size(), kShown);
  for (size_t i = 0; i < shown; ++i) {
    fmt::print("  {}: {}\n", shard::fault_name(verdict.problems[i].fault),
               printable(verdict.problems[i].text));
  }
  if (verdict.problem_count > shown) {
    fmt::print("  … and {} more; --json shows the first {}\n", verdict.problem_count - shown,
               shard::Verdict::kMostProblems);
  }
}

bool is_about_index_only(const shard::Verdict& verdict) {
  return std::ranges::all_of(verdict.problems,
                             [](const auto& problem) { return problem.fault == shard::Fault::kStaleIndex; });
}

Status repair(Shell& shell, const VerifyFlags& flags, const std::string& name,
              const shard::VerifyOptions& options) {
  if (net::is_url(flags.output) || (flags.output.empty() && net::is_url(name))) {
    return make_error(Code::kInvalid, "{}: what can be saved is written to a file", name)
        .with_hint("name one with --output, and send it with millrace put");
  }
  const std::string output = flags.output.empty() ? repaired_name(name) : flags.output;
  if (file_exists(output))
    return make_error(Code::kExists, "{} exists", output)
        .with_hint("remove it, or name another with --output");
  if (shell.dry_run) {
    say_step(shell, "save what can be saved of", name, output);
    return {};
  }
  const shard::RepairReport report = MR_TRY(shard::repair_shard(name, output, options));
  if (shell.json) {
    Shell::print({{"shard", name},
                  {"repaired", output},
                  {"kept_samples", report.kept_samples},
                  {"gathered_samples", report.gathered_samples},
                  {"lost", report.lost}});
    return {};
  }
  fmt::print("  saved {} samples to {}\n", format_count(report.kept_samples), output);
  if (report.gathered_samples > 0)
    fmt::print("  brought together {} scattered parts\n", format_count(report.gathered_samples));
  for (const std::string& lost : report.lost) fmt::print("  lost: {}\n", printable(lost));
  return {};
}

Status run(Shell& shell, const VerifyFlags& flags) {
  shard::VerifyOptions options;
  options.input = MR_TRY(flags.input.options(shell));
  options.expected_fields = split_words(lower_case(flags.fields));
  decode::ImageCheck images;
  if (flags.decode) {
    options.check_content = [&](std::string_view field, std::string_view bytes) {
      return images.check(field, bytes);
    };
  }
  const std::vector<std::string> names = MR_TRY(flags.input.names(shell));
  if (flags.repair && std::ranges::find(names, shard::kStandardStream) != names.end()) {
    return make_error(Code::kInvalid, "--repair reads twice and cannot read standard input")
        .with_hint("save the stream to a file first");
  }
  if (flags.repair && names.size() > 1 && !flags.output.empty()) {
    return make_error(Code::kInvalid, "--output names one file, and there are {} shards to repair",
                      names.size());
  }
  uint64_t bad = 0;
  for (const std::string& name : names) {
    shard::Verdict verdict;
    {
      const auto bar = shell.bar("verifying");
      auto result = shard::verify_shard(name, options);
      if (!result) {
        fmt::print(stderr, "millrace: {}\n", printable(result.error().message()));
        ++bad;
        continue;
      }
      verdict = result.take();
    }
    if (shell.json) {
      Shell::print(as_json(verdict));
    } else if (!shell.quiet || verdict.problem_count > 0) {
      print_verdict(verdict);
    }
    if (verdict.problem_count == 0) continue;
    ++bad;
    if (!flags.repair) continue;
    if (is_about_index_only(verdict)) {
      shell.say(fmt::format(
          "  the archive itself is in order: if its content is what it should be, millrace tar index {}",
          name));
      continue;
    }
    MR_TRY(repair(shell, flags, name, options));
  }
  if (bad == 0) return {};
  Error error = make_error(Code::kCorrupt, "{} of {} shards have problems", bad, names.size());
  return flags.repair ? std::move(error) : std::move(error).with_hint("save what can be saved with --repair");
}

}  // namespace

void add_tar_verify(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand(
      "verify",
      "Check shards for damage, cut ends, scattered samples and stale indexes; with --decode for "
      "corrupt and empty images");
  verb->fallthrough();
  auto flags = std::make_shared<VerifyFlags>();
  flags->input.add_to(*verb);
  verb->add_option("--fields", flags->fields, "Fields that every sample must have, for example jpg,cls");
  verb->add_flag("--decode", flags->decode,
                 "Decode every image (fields jpg, jpeg, png, webp): finds corrupt and empty ones, which the "
                 "checks of the archive cannot see");
  CLI::Option* repair_flag = verb->add_flag(
      "--repair", flags->repair,
      "Write what can be saved of bad shards to NAME.repaired.tar; with --decode without the samples "
      "whose images are bad");
  verb->add_option("--output", flags->output, "Where the repaired shard goes")
      ->needs(repair_flag)
      ->type_name("FILE");
  add_dry_run(*verb, shell);
  verb->footer(
      "Exit code: 0 all good, 1 something is wrong, 2 wrong usage.\n\n"
      "Examples:\n"
      "  millrace tar verify --fields jpg,cls 'train-*.tar'\n"
      "  millrace tar verify --decode 'train-*.tar'\n"
      "  millrace tar verify --repair damaged.tar");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
