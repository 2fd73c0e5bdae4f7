// millrace transform: programs that a store runs on its shards: added, listed, shown, removed, tried.
#include <algorithm>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "base/units.h"
#include "cli/common.h"
#include "cli/copying.h"
#include "cli/remote.h"
#include "cli/transform_flags.h"
#include "net/ranged.h"
#include "shard/input.h"
#include "transform/engine.h"

namespace millrace::cli {

namespace {

constexpr uint64_t kMostFieldNames = 64;

Status add(Shell& shell, const TransformFlags& flags) {
  const Json description = MR_TRY(flags.description(shell.trailing));
  // Checked here, so that a slip is told without a node.
  MR_TRY(transform::check_name(flags.name));
  MR_TRY(transform::parse_description(description.dump()));
  if (shell.dry_run) {
    say_step(shell, "register the transform", flags.name, description.dump());
    return {};
  }
  const Json made = MR_TRY(administer(shell, flags.endpoint, "PUT", "transforms/" + flags.name, description));
  if (shell.json) {
    Shell::print(made);
  } else {
    shell.say(fmt::format(
        "{} is version {} ({}); ?transform={} on any shard, millrace transform test {} SHARD", flags.name,
        made.at("version").get<uint64_t>(), made.at("kind").get<std::string>(), flags.name, flags.name));
  }
  return {};
}

Status list(Shell& shell, const TransformFlags& flags) {
  const Json answer = MR_TRY(administer(shell, flags.endpoint, "GET", "transforms", Json()));
  if (shell.json) {
    Shell::print(answer);
    return {};
  }
  for (const Json& one : answer.at("transforms")) {
    const uint64_t runs = one.value("runs", uint64_t{0});
    fmt::print(
        "{}  version {}  {}  on-error={}{}{}{}\n", one.at("name").get<std::string>(),
        one.at("version").get<uint64_t>(), one.at("kind").get<std::string>(),
        one.at("on_error").get<std::string>(), one.at("keep").get<bool>() ? "  kept" : "",
        runs > 0 ? fmt::format("  {} runs here, {} failed", runs, one.value("failures", uint64_t{0})) : "",
        one.contains("note") ? "  " + printable(one.at("note").get<std::string>()) : "");
  }
  return {};
}

Status show(Shell& shell, const TransformFlags& flags) {
  const Json answer = MR_TRY(administer(shell, flags.endpoint, "GET", "transforms/" + flags.name, Json()));
  if (shell.json) {
    Shell::print(answer);
    return {};
  }
  fmt::print("{}  {}\n", flags.name, answer.at("tag").get<std::string>());
  for (const auto& [name, value] : answer.at("description").items()) {
    if (name != "source") fmt::print("  {}: {}\n", name, printable(value.dump()));
  }
  if (answer.at("description").contains("source"))
    fmt::print("  source:\n{}\n", answer.at("description").at("source").get<std::string>());
  for (const Json& failure : answer.at("failures"))
    fmt::print("  failed {}  {}\n", failure.at("at").get<std::string>(),
               printable(failure.at("message").get<std::string>()));
  return {};
}

Status remove(Shell& shell, const TransformFlags& flags) {
  if (shell.dry_run) {
    say_step(shell, "remove the transform", flags.name);
    return {};
  }
  const Json answer = MR_TRY(administer(shell, flags.endpoint, "DELETE", "transforms/" + flags.name, Json()));
  if (shell.json) Shell::print(answer);
  if (!shell.json) shell.say("removed " + flags.name);
  return {};
}

// What came out, sample by sample.
struct Tally {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  std::map<std::string, std::pair<uint64_t, uint64_t>> fields;  // how many, and their bytes
};

Result<Tally> count_samples(tar::ByteSource& source, const std::string& name) {
  tar::StreamWindow window(source);
  tar::SampleReader reader(window, name);
  Tally tally;
  while (true) {
    const tar::Sample* sample = MR_TRY(reader.next());
    if (sample == nullptr) return tally;
    ++tally.samples;
    for (const tar::Field& field : sample->fields) {
      tally.bytes += field.bytes.size();
      const std::string known(field.field);
      if (tally.fields.size() == kMostFieldNames && !tally.fields.contains(known)) continue;
      auto& [count, bytes] = tally.fields[known];
      ++count;
      bytes += field.bytes.size();
    }
  }
}

// The answer of the node as a source that can also be written to a file.
class AnswerSource final : public tar::ByteSource {
 public:
  AnswerSource(std::unique_ptr<net::RangedReader> reader, File* copy)
      : reader_(std::move(reader)), copy_(copy) {}
  Result<size_t> read_some(std::span<std::byte> into) override {
    const size_t got = MR_TRY(reader_->read_some(into));
    if (copy_ != nullptr) MR_TRY(copy_->write_all({reinterpret_cast<const char*>(into.data()), got}));
    return got;
  }
  Result<uint64_t> skip(uint64_t bytes) override { return tar::skip_by_reading(*this, bytes); }

 private:
  const std::unique_ptr<net::RangedReader> reader_;
  File* const copy_;
};

// Runs here what the node would run there: for a shard that is not in the store.
Status run_here(Shell& shell, const TransformFlags& flags, File& out) {
  const Json answer = MR_TRY(administer(shell, flags.endpoint, "GET", "transforms/" + flags.name, Json()));
  transform::Registered registered{flags.name, answer.at("version").get<uint64_t>(), {}};
  registered.description = MR_TRY(transform::parse_description(answer.at("description").dump()));
  const auto input = MR_TRY(shard::ShardInput::open(flags.shard, {}));
  class FileSink final : public tar::ByteSink {
   public:
    explicit FileSink(File& file) : file_(file) {}
    Status write(std::string_view bytes) override { return file_.write_all(bytes); }
    Status finish() override { return {}; }

   private:
    File& file_;
  } sink(out);
  transform::Engine engine({});
  std::optional<uint64_t> size;
  if (input->compression() == tar::Compression::kNone) size = MR_TRY(file_size(flags.shard));
  MR_TRY(engine.run(registered, {flags.shard, input->plain(), size}, sink));
  return {};
}

class ReadFile final : public tar::ByteSource {
 public:
  explicit ReadFile(File& file) : file_(file) {}
  Result<size_t> read_some(std::span<std::byte> into) override {
    const size_t got = MR_TRY(file_.read_at(at_, into));
    at_ += got;
    return got;
  }
  Result<uint64_t> skip(uint64_t bytes) override { return tar::skip_by_reading(*this, bytes); }

 private:
  File& file_;
  uint64_t at_ = 0;
};

Result<Tally> test_here(Shell& shell, const TransformFlags& flags, std::optional<AtomicFile>& out) {
  if (out) {
    MR_TRY(run_here(shell, flags, out->file()));
    ReadFile source(out->file());
    return count_samples(source, flags.name);
  }
  File file = MR_TRY(File::make_temporary(std::filesystem::temp_directory_path().string()));
  MR_TRY(run_here(shell, flags, file));
  ReadFile source(file);
  return count_samples(source, flags.name);
}

Result<Tally> test_there(Shell& shell, const TransformFlags& flags, std::optional<AtomicFile>& out) {
  transfer::Stores* stores = MR_TRY(shell.stores());
  const std::string address = MR_TRY(shell.resolve(flags.shard, Shell::Names::kAddresses));
  const transfer::Location shard = MR_TRY(stores->find(address));
  net::Url url = shard.url;
  url.query += (url.query.empty() ? "" : "&") + ("transform=" + flags.name);
  if (!flags.samples.empty())
    url.query += "&samples=" + net::percent_encode(flags.samples, net::Encode::kAll);
  auto reader = MR_TRY(net::RangedReader::open(shard.store->client(), url));
  AnswerSource source(std::move(reader), out ? &out->file() : nullptr);
  Tally tally = MR_TRY(count_samples(source, flags.name));
  return tally;
}

Status test(Shell& shell, const TransformFlags& flags) {
  const Stopwatch watch;
  MR_TRY(transform::check_name(flags.name));
  std::optional<AtomicFile> out;
  if (!flags.output.empty()) out = MR_TRY(AtomicFile::create(flags.output));
  const std::string word = MR_TRY(shell.resolve(flags.shard, Shell::Names::kAlsoFiles));
  const bool is_here = !net::is_url(word);
  if (is_here && !flags.samples.empty())
    return make_error(Code::kInvalid, "--samples goes with a shard of the store, not with a file");
  const Tally tally = MR_TRY(is_here ? test_here(shell, flags, out) : test_there(shell, flags, out));
  if (out) MR_TRY(out->finish());
  if (shell.json) {
    Json fields = Json::object();
    for (const auto& [name, counted] : tally.fields)
      fields[name] = {{"count", counted.first}, {"bytes", counted.second}};
    Shell::print({{"transform", flags.name},
                  {"samples", tally.samples},
                  {"bytes", tally.bytes},
                  {"seconds", watch.seconds()},
                  {"fields", fields}});
    return {};
  }
  fmt::print("{} samples, {} in {:.2f} s\n", format_count(tally.samples), format_bytes(tally.bytes),
             watch.seconds());
  for (const auto& [name, counted] : tally.fields)
    fmt::print("  {}  {} times, {}\n", printable(name), format_count(counted.first),
               format_bytes(counted.second));
  return {};
}

}  // namespace

void add_transform(CLI::App& app, Shell& shell) {
  CLI::App* verbs = app.add_subcommand(
      "transform", "Programs that the store runs on shards: add, list, show, remove, test");
  verbs->require_subcommand(1);
  verbs->fallthrough();
  const auto add_verb = [&](const std::string& name, const std::string& help,
                            Status (*work)(Shell&, const TransformFlags&)) {
    CLI::App* verb = verbs->add_subcommand(name, help);
    verb->fallthrough();
    auto flags = std::make_shared<TransformFlags>();
    verb->add_option("--endpoint", flags->endpoint,
                     "The node; default MILLRACE_ENDPOINT or http://127.0.0.1:9400")
        ->type_name("URL");
    if (name != "list") verb->add_option("name", flags->name, "The transform")->required();
    verb->callback(
        [&shell, flags, work] { shell.action = [&shell, flags, work] { return work(shell, *flags); }; });
    return std::pair(verb, flags);
  };
  const auto [add_one, add_flags] =
      add_verb("add", "Register a transform, or its next version, on all nodes", add);
  add_flags->add_to(*add_one);
  add_dry_run(*add_one, shell);
  add_verb("list", "Show all transforms, and what they did on this node", list);
  add_verb("show", "Show what a transform is, and how it failed lately on this node", show);
  const auto removing = add_verb("remove", "Remove a transform; its results are forgotten", remove);
  add_dry_run(*removing.first, shell);
  const auto [test_one, test_flags] =
      add_verb("test", "Run a transform on a shard and say what came out", test);
  test_one->add_option("shard", test_flags->shard, "A shard of the store, or a file, which is run here")
      ->required()
      ->type_name("URL|FILE");
  test_one->add_option("--samples", test_flags->samples, "Only these samples of it")->type_name("A-B");
  test_one->add_option("-o,--output", test_flags->output, "Keep the result in this file")->type_name("FILE");
  test_one->footer(
      "Examples:\n  millrace transform test thumbs mr://train/shard-000000.tar --samples 0-9\n"
      "  millrace transform test thumbs shard-000000.tar -o result.tar");
}

}  // namespace millrace::cli
