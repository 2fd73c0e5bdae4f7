// millrace job start KIND: describes a job and hands it to a node.
#include "base/file.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/job_text.h"
#include "cli/remote.h"
#include "jobs/description.h"
#include "net/url.h"

namespace millrace::cli {

namespace {

using jobs::Kind;

// As of millrace tar sort.
constexpr uint64_t kSortMemory = uint64_t{1} << 30;

struct StartFlags {
  jobs::Description job;
  std::string endpoint;
  std::string shell_command;
  std::string mapper;
  std::string combiner;
  std::string reducer;
  std::vector<std::string> files;
  bool detach = false;
};

// Addresses as the nodes know them: of their own store. Which store that is: all must name the same.
class Addresses {
 public:
  explicit Addresses(transfer::Stores& stores) : stores_(stores) {}

  Result<std::string> within_store(const std::string& word) {
    const transfer::Location location = MR_TRY(stores_.find(word));
    if (location.bucket.empty())
      return make_error(Code::kInvalid, "{} names no bucket", word)
          .with_hint("for example mr://train/train-*.tar");
    if (store_ != nullptr && location.store != store_)
      return make_error(Code::kInvalid, "{} is in another store: a job works within one", word)
          .with_hint(
              "millrace cp copies between stores; a bucket in front of the other store does, too "
              "(millrace bucket --upstream)");
    store_ = location.store;
    return fmt::format("mr://{}/{}", location.bucket, location.key);
  }
  // The number in a name is no escape: only what stands before it is an address yet.
  Result<std::string> output_within_store(const std::string& word) {
    const size_t percent = word.find('%');
    const size_t slash = percent == std::string::npos ? percent : word.rfind('/', percent);
    if (slash == std::string::npos) return within_store(word);
    return MR_TRY(within_store(word.substr(0, slash + 1))) + word.substr(slash + 1);
  }
  transfer::Store* store() const { return store_; }

 private:
  transfer::Stores& stores_;
  transfer::Store* store_ = nullptr;
};

std::vector<std::string> shell_words(const std::string& command) {
  return command.empty() ? std::vector<std::string>() : std::vector<std::string>{"/bin/sh", "-c", command};
}

Status read_files(StartFlags& flags) {
  for (const std::string& path : flags.files) {
    std::string content = MR_TRY(read_file(path, jobs::kMostFileBytes));
    if (!is_utf8(content))
      return make_error(Code::kInvalid, "{} is not text: only scripts travel with a job", path)
          .with_hint("install programs on the nodes, or make their directory readable: job_paths");
    const std::string name = path.substr(path.rfind('/') + 1);
    if (!flags.job.files.emplace(name, std::move(content)).second)
      return make_error(Code::kInvalid, "two files are called {}", name);
  }
  return {};
}

Status describe(Shell& shell, StartFlags& flags, Addresses& addresses) {
  jobs::Description& job = flags.job;
  if (job.kind == Kind::kMap) {
    if (!flags.shell_command.empty() && !shell.trailing.empty())
      return make_error(Code::kInvalid, "give the command with -c or after --, not both");
    job.command = flags.shell_command.empty() ? shell.trailing : shell_words(flags.shell_command);
  }
  job.mapper = shell_words(flags.mapper);
  job.combiner = shell_words(flags.combiner);
  job.reducer = shell_words(flags.reducer);
  MR_TRY(read_files(flags));
  for (std::string& input : job.inputs) input = MR_TRY(addresses.within_store(input));
  if (!job.output.empty()) job.output = MR_TRY(addresses.output_within_store(job.output));
  return jobs::check(job);
}

Status run(Shell& shell, const StartFlags& given) {
  StartFlags flags = given;
  transfer::Stores* const stores = MR_TRY(shell.stores());
  Addresses addresses(*stores);
  MR_TRY(describe(shell, flags, addresses));
  if (shell.dry_run) {
    Shell::print(Json::parse(jobs::encode(flags.job)));
    return {};
  }
  NodeRequest request;
  request.method = "POST";
  request.what = "jobs";
  request.body = {{"action", "start"}, {"job", Json::parse(jobs::encode(flags.job))}};
  const Json job = MR_TRY(administer(*addresses.store(), request));
  const auto id = job.at("id").get<std::string>();
  if (flags.detach) {
    if (shell.json)
      Shell::print(job);
    else
      fmt::print("{}\n", id);
    return {};
  }
  shell.say(fmt::format("job {} began; ^C only ends the watching: millrace job stop {}", id, id));
  return watch_job(shell, addresses.store()->url("", "").text(), id);
}

void add_input(CLI::App& verb, StartFlags& flags) {
  verb.add_option("inputs", flags.job.inputs, "Objects of the store; brace ranges, globs")
      ->required()
      ->type_name("URL");
  if (!is_of_ranks(flags.job.kind) && flags.job.kind != Kind::kMapReduce)
    verb.add_flag("-r,--recursive", flags.job.recursive, "All objects below the addresses");
  if (has_output(flags.job.kind)) {
    const bool numbered = is_of_ranks(flags.job.kind) || flags.job.kind == Kind::kMapReduce;
    verb.add_option("-o,--output", flags.job.output,
                    numbered ? "Where shards go, with a number: mr://out/part-%06d.tar"
                             : "Where outputs go, under the names of the inputs: mr://out/")
        ->required()
        ->type_name("URL");
  }
}

void add_limits(CLI::App& verb, StartFlags& flags) {
  add_bytes(verb, "--max-bytes", flags.job.max_bytes, "Most bytes of a shard (default 1GB)");
  verb.add_option("--max-samples", flags.job.max_samples, "Most samples of a shard")->type_name("N");
}

void add_commands(CLI::App& verb, StartFlags& flags) {
  if (flags.job.kind == Kind::kMap) {
    verb.add_option("-c,--command", flags.shell_command,
                    "A command line for /bin/sh, run for every sample as millrace tar map does; or give a "
                    "program and its arguments behind --");
    verb.add_option("--on-error", flags.job.on_error,
                    "Where the command fails: abort the task, skip the sample, or keep it as it was")
        ->type_name("abort|skip|keep")
        ->capture_default_str();
    verb.add_flag("--many", flags.job.many, "sample-A.*, sample-B.*, ... become samples KEY-A, KEY-B, ...");
  } else {
    verb.add_option("--map", flags.mapper, "A command line that reads a shard and writes records, both tar")
        ->required();
    verb.add_option("--combine", flags.combiner, "A command line like that of --reduce, behind each mapper");
    verb.add_option("--reduce", flags.reducer,
                    "A command line that reads groups of records by key and writes samples, both tar")
        ->required();
  }
  verb.add_option("--file", flags.files, "A script for the commands, found below $MILLRACE_FILES; repeatable")
      ->type_name("FILE");
}

void add_settings(CLI::App& verb, StartFlags& flags) {
  jobs::Description& job = flags.job;
  if (job.kind == Kind::kMap || job.kind == Kind::kMapReduce) add_commands(verb, flags);
  if (job.kind == Kind::kTransform)
    verb.add_option("--transform", job.transform, "Its name in the store")->required()->type_name("NAME");
  if (job.kind == Kind::kVerify) {
    verb.add_option("--fields", job.fields, "Fields that every sample must have, for example jpg,cls");
    verb.add_flag("--decode", job.decode, "Decode every image (fields jpg, jpeg, png, webp)");
  }
  if (job.kind == Kind::kSort) {
    CLI::Option* const field =
        verb.add_option("--by", job.by, "Order by this field instead of the key")->type_name("FIELD");
    verb.add_flag("--number", job.number, "The field is a number")->needs(field);
    verb.add_flag("--reverse", job.reverse, "Largest first");
  }
  if (job.kind == Kind::kShuffle)
    verb.add_option("--seed", job.seed, "Which random order; the same seed gives the same bytes")
        ->capture_default_str();
  if (is_of_ranks(job.kind) || job.kind == Kind::kMapReduce) add_limits(verb, flags);
  const bool sorts = is_of_ranks(job.kind);
  if (sorts) job.memory = kSortMemory;
  add_bytes(verb, "--memory", job.memory,
            sorts ? "Of each node; what does not fit goes to its directory (default 1GiB)"
                  : "Of each task (default 256MiB)");
  verb.add_option("--attempts", job.attempts, "How often a task that fails is tried")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--note", job.note, "Shown with the job");
  verb.add_flag("-d,--detach", flags.detach, "Print the job's id and do not wait for its end");
}

struct KindWords {
  Kind kind;
  const char* help;
  const char* examples;
};

constexpr KindWords kWords[] = {
    {Kind::kMap, "Run a command for every sample of every shard; one shard of the same name comes out",
     "  millrace job start map 'mr://train/*.tar' -o mr://webp/ -c 'cwebp -quiet sample.jpg -o sample.webp "
     "&& "
     "rm sample.jpg'\n"
     "  millrace job start map 'mr://train/*.tar' -o mr://small/ --file resize.py -c 'python3 "
     "$MILLRACE_FILES/resize.py'"},
    {Kind::kTransform, "Copy objects as a transform of the store gives them",
     "  millrace job start transform 'mr://train/*.tar' --transform thumbnails -o mr://thumbnails/"},
    {Kind::kCopy, "Copy objects to another prefix or bucket",
     "  millrace job start copy 'mr://train/*.tar' -o mr://archive/2026/\n"
     "  millrace job start copy -r mr://train/ -o mr://archive/"},
    {Kind::kIndex, "Make the indexes of shards that have none yet",
     "  millrace job start index 'mr://train/*.tar'"},
    {Kind::kVerify, "Check shards for damage, cut ends, scattered samples, corrupt images",
     "  millrace job start verify --decode 'mr://train/*.tar'"},
    {Kind::kPrefetch, "Fetch objects of a bucket in front of other storage",
     "  millrace job start prefetch 'mr://cached/train-*.tar'"},
    {Kind::kSort, "Order all samples of all shards by key or by a field",
     "  millrace job start sort --by cls --number 'mr://train/*.tar' -o mr://sorted/part-%06d.tar"},
    {Kind::kShuffle, "Put all samples of all shards in random order",
     "  millrace job start shuffle --seed 7 'mr://train/*.tar' -o mr://shuffled/part-%06d.tar"},
    {Kind::kReshard, "Cut samples into shards anew, in the order they stand in",
     "  millrace job start reshard --max-bytes 500MB 'mr://train/*.tar' -o mr://even/part-%06d.tar"},
    {Kind::kMapReduce, "Turn shards into records, and groups of records with one key into samples",
     "  millrace job start mapreduce 'mr://train/*.tar' -o mr://counts/part-%06d.tar --file classes.py \\\n"
     "    --map 'python3 $MILLRACE_FILES/classes.py map' --reduce 'python3 $MILLRACE_FILES/classes.py "
     "reduce'"},
};

}  // namespace

void add_job_start(CLI::App& job, Shell& shell) {
  CLI::App* start = job.add_subcommand("start", "Start a job of one of these kinds");
  start->require_subcommand(1);
  start->fallthrough();
  for (const KindWords& words : kWords) {
    CLI::App* verb = start->add_subcommand(std::string(jobs::kind_name(words.kind)), words.help);
    verb->fallthrough();
    auto flags = std::make_shared<StartFlags>();
    flags->job.kind = words.kind;
    add_input(*verb, *flags);
    add_settings(*verb, *flags);
    add_dry_run(*verb, shell);
    verb->footer(fmt::format("Examples:\n{}", words.examples));
    verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
  }
}

}  // namespace millrace::cli
