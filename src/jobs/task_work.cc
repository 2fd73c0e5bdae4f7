// What each kind of task does.
#include "jobs/task_work.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "decode/image_check.h"
#include "jobs/plan.h"
#include "net/digest.h"
#include "net/url.h"
#include "shard/filter.h"
#include "shard/input.h"
#include "shard/map.h"
#include "shard/mapreduce.h"
#include "shard/sandbox.h"
#include "shard/verify.h"
#include "transfer/prefetch.h"
#include "transfer/stream_upload.h"

namespace millrace::jobs {

namespace {

constexpr std::string_view kFilesVariable = "MILLRACE_FILES";
constexpr int64_t kLookAgainMs = 300;
// In the answer of a store that gave a transform of the object: its name, and which version of it.
constexpr std::string_view kTransformHeader = "x-millrace-transform";

std::string files_directory(const WorkSetup& setup) {
  return setup.directory + "/files";
}

int64_t number(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
}

transfer::PutOptions written_once(const WorkSetup& setup) {
  transfer::PutOptions options;
  options.once = setup.job;
  return options;
}

// Type and metadata of the object that is copied; the mark of another job is not the copy's.
std::vector<net::HeaderField> copied_headers(const std::vector<net::HeaderField>& headers) {
  std::vector<net::HeaderField> copied;
  for (const auto& [name, value] : headers) {
    const std::string lower = lower_case(name);
    if (lower == transfer::kMarkHeader) continue;
    if (lower == "content-type" || lower.starts_with("x-amz-meta-")) copied.emplace_back(lower, value);
  }
  return copied;
}

// A store that does not know transforms passes over the wish and gives the object as it is.
Status check_transformed(const std::vector<net::HeaderField>& headers, const std::string& name) {
  const bool said = std::ranges::any_of(headers, [&](const net::HeaderField& header) {
    return net::equal_names(header.first, kTransformHeader) &&
           (header.second == name || header.second.starts_with(name + " "));
  });
  if (said) return {};
  return make_error(Code::kUnsupported, "the store gives no transform {}", name)
      .with_hint("is it defined there? Does the store know transforms?");
}

// An object, as it is or as a transform of the store gives it, to another place.
Result<Sums> copy(const Workplace& place, const WorkTask& task) {
  const std::string& transform = place.setup.description.transform;
  transfer::Location from = MR_TRY(place.stores.find(task.input));
  if (!transform.empty()) from.url.query = "transform=" + transform;
  const auto reader = MR_TRY(net::RangedReader::open(from.store->client(), from.url, {}));
  if (!transform.empty()) MR_TRY(check_transformed(reader->headers(), transform));
  const transfer::ObjectHead head = transfer::read_head(reader->headers());
  transfer::PutOptions options = written_once(place.setup);
  options.headers = copied_headers(reader->headers());
  transfer::StreamUpload upload(MR_TRY(place.stores.find(task.output)), options);
  net::Digest crc(net::DigestKind::kCrc32c);
  std::vector<std::byte> buffer(1 << 20);
  while (const size_t got = MR_TRY(reader->read_some(buffer))) {
    const std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), got);
    crc.add(bytes);
    MR_TRY(upload.write(bytes));
  }
  if (!head.crc32c.empty() && net::to_base64(crc.finish()) != head.crc32c)
    return make_error(Code::kUnavailable, "{} arrived damaged: its checksum is another", task.input);
  MR_TRY(upload.finish());
  return Sums{{"bytes_in", number(upload.bytes())}, {"bytes_out", number(upload.bytes())}};
}

Result<Sums> index(const Workplace& place, const WorkTask& task) {
  transfer::Location object = MR_TRY(place.stores.find(task.input));
  object.url.query = "index=";
  net::Request request;
  request.url = object.url;
  net::Response response = MR_TRY(object.store->client().call(request));
  uint64_t bytes = 0;
  std::vector<std::byte> buffer(256 << 10);
  while (const size_t got = MR_TRY(response.read_some(buffer))) bytes += got;
  return Sums{{"index_bytes", number(bytes)}};
}

Result<Sums> verify(const Workplace& place, const WorkTask& task) {
  shard::VerifyOptions options;
  options.input.stores = &place.stores;
  options.expected_fields = split_words(lower_case(place.setup.description.fields));
  decode::ImageCheck images;
  if (place.setup.description.decode) {
    options.check_content = [&](std::string_view field, std::string_view bytes) {
      return images.check(field, bytes);
    };
  }
  const shard::Verdict verdict = MR_TRY(shard::verify_shard(task.input, options));
  if (verdict.problem_count > 0) {
    constexpr size_t kShown = 20;
    std::string text = fmt::format("{} has {} problems", task.input, verdict.problem_count);
    for (size_t i = 0; i < std::min(verdict.problems.size(), kShown); ++i) {
      text += fmt::format("\n{}: {}", shard::fault_name(verdict.problems[i].fault),
                          printable(verdict.problems[i].text));
    }
    return make_error(Code::kCorrupt, "{}", text);
  }
  return Sums{{"bytes_in", number(verdict.tar_bytes)}, {"samples", number(verdict.samples)}};
}

Result<Sums> prefetch(const Workplace& place, const WorkTask& task) {
  using State = transfer::Prefetched::State;
  const transfer::Location object = MR_TRY(place.stores.find(task.input));
  while (true) {
    const auto said = MR_TRY(transfer::ask_prefetch(object.with_key(""), {object.key}));
    if (said.empty())
      return make_error(Code::kUnavailable, "{}: the store does not say whether it comes", task.input);
    if (said.front().state == State::kFailed)
      return make_error(Code::kUnavailable, "{}", said.front().problem);
    if (said.front().state == State::kStored) return Sums{{"bytes_in", number(said.front().stored_bytes)}};
    MR_TRY(object.store->client().pause(kLookAgainMs));
  }
}

shard::Sandbox sandbox_of(const Workplace& place, const std::string& directory) {
  shard::Sandbox sandbox;
  sandbox.confinement = place.setup.confinement;
  sandbox.directory = directory;
  sandbox.readable = place.setup.readable;
  sandbox.readable.push_back(place.setup.program);
  sandbox.readable.push_back(files_directory(place.setup));
  sandbox.variables = {fmt::format("{}={}", kFilesVariable, files_directory(place.setup)),
                       fmt::format("{}={}/counters", shard::kCountersVariable, directory)};
  return sandbox;
}

// millrace tar map itself, between two pipes: so the output is that of the tool, and the sandbox is made once
// for the task and not for every sample.
std::vector<std::string> map_words(const Workplace& place, const WorkTask& task,
                                   const std::string& directory) {
  const Description& job = place.setup.description;
  const auto compression = tar::compression_for_name(task.output);
  std::vector<std::string> words = {place.setup.program,
                                    "--quiet",
                                    "tar",
                                    "map",
                                    "-",
                                    "-o",
                                    "-",
                                    "--compress",
                                    std::string(tar::compression_name(compression)),
                                    "--on-error",
                                    job.on_error,
                                    "-j",
                                    "1",
                                    "--memory",
                                    std::to_string(job.memory),
                                    "--tmpdir",
                                    directory};
  if (job.many) words.emplace_back("--many");
  words.emplace_back("--");
  words.insert(words.end(), job.command.begin(), job.command.end());
  return words;
}

Result<Sums> map(const Workplace& place, const WorkTask& task) {
  const auto directory = MR_TRY(shard::PrivateDirectory::make(place.setup.directory));
  const auto source = MR_TRY(shard::FileSource::open(task.input, &place.stores));
  transfer::StreamUpload upload(MR_TRY(place.stores.find(task.output)), written_once(place.setup));
  uint64_t bytes_in = 0;
  shard::Filter filter;
  filter.words =
      shard::sandboxed(sandbox_of(place, directory.path()), map_words(place, task, directory.path()));
  filter.directory = directory.path();
  filter.feed = [&](tar::ByteSink& sink) {
    return shard::copy_bytes(*source, [&](std::string_view bytes) {
      bytes_in += bytes.size();
      return sink.write(bytes);
    });
  };
  filter.take = [&](tar::ByteSource& output) {
    return shard::copy_bytes(output, [&](std::string_view bytes) { return upload.write(bytes); });
  };
  MR_TRY(shard::run_filter(filter));
  MR_TRY(upload.finish());
  return Sums{{"bytes_in", number(bytes_in)}, {"bytes_out", number(upload.bytes())}};
}

shard::MapReducePlace mapreduce_place(const Workplace& place, const std::string& directory) {
  shard::MapReducePlace made;
  made.directory = directory;
  made.memory = place.setup.description.memory;
  made.input.stores = &place.stores;
  made.output.stores = &place.stores;
  made.output.put = written_once(place.setup);
  return made;
}

Result<Sums> sums_of(const shard::MapReduceReport& report, const std::string& directory) {
  Sums sums = {{"bytes_in", number(report.bytes_in)},
               {"bytes_out", number(report.bytes_out)},
               {"records", number(report.records)}};
  if (report.groups > 0) sums["groups"] = number(report.groups);
  if (report.samples > 0) sums["samples"] = number(report.samples);
  shard::Counters counters;
  MR_TRY(shard::add_counters(directory + "/counters", counters));
  for (const auto& [name, value] : counters) sums["counter:" + name] = value;
  return sums;
}

Result<Sums> map_to_records(const Workplace& place, const WorkTask& task) {
  const Description& job = place.setup.description;
  const auto directory = MR_TRY(shard::PrivateDirectory::make(place.setup.directory));
  const shard::Sandbox sandbox = sandbox_of(place, directory.path());
  shard::MapRecords records;
  records.mapper = shard::sandboxed(sandbox, job.mapper);
  if (!job.combiner.empty()) records.combiner = shard::sandboxed(sandbox, job.combiner);
  records.input = task.input;
  records.output = task.output;
  records.number = task.number;
  const auto report = MR_TRY(shard::map_records(records, mapreduce_place(place, directory.path())));
  return sums_of(report, directory.path());
}

Result<Sums> reduce(const Workplace& place, const WorkTask& task) {
  const Description& job = place.setup.description;
  const auto directory = MR_TRY(shard::PrivateDirectory::make(place.setup.directory));
  const auto sorted = MR_TRY(shard::OutputName::parse(sorted_pattern(job, place.setup.job)));
  shard::ReduceGroups groups;
  groups.reducer = shard::sandboxed(sandbox_of(place, directory.path()), job.reducer);
  for (uint64_t i = 0; i < place.setup.sorted_shards; ++i) groups.sorted.push_back(sorted.at(i));
  groups.at = task.number;
  groups.output = task.output;
  const auto report = MR_TRY(shard::reduce_groups(groups, mapreduce_place(place, directory.path())));
  return sums_of(report, directory.path());
}

}  // namespace

Status write_files(const WorkSetup& setup) {
  const std::string directory = files_directory(setup);
  std::error_code failure;
  std::filesystem::remove_all(directory, failure);
  std::filesystem::create_directories(directory, failure);
  if (failure) return make_system_error(failure.value(), "making " + directory);
  for (const auto& [name, content] : setup.description.files) {
    MR_TRY(write_file_atomically(directory + "/" + name, content));
    std::filesystem::permissions(directory + "/" + name, std::filesystem::perms(0755), failure);
  }
  return {};
}

Result<Sums> run_task(const Workplace& place, const WorkTask& task) {
  switch (place.setup.description.kind) {
    case Kind::kMap:
      return map(place, task);
    case Kind::kTransform:
    case Kind::kCopy:
      return copy(place, task);
    case Kind::kIndex:
      return index(place, task);
    case Kind::kVerify:
      return verify(place, task);
    case Kind::kPrefetch:
      return prefetch(place, task);
    case Kind::kMapReduce:
      return place.setup.stage == "reduce" ? reduce(place, task) : map_to_records(place, task);
    case Kind::kSort:
    case Kind::kShuffle:
    case Kind::kReshard:
      break;
  }
  return make_error(Code::kInvalid, "a job of kind {} has no single tasks",
                    kind_name(place.setup.description.kind));
}

Result<exchange::RankSortOptions> rank_options(const Workplace& place) {
  const Description& job = place.setup.description;
  exchange::RankSortOptions options;
  options.sort.seed = job.seed;
  options.sort.reverse = job.reverse;
  options.sort.memory = job.memory;
  options.sort.reread = shard::Reread::kNever;
  options.sort.temporary_directory = place.setup.directory;
  options.sort.input.stores = &place.stores;
  options.sort.field = lower_case(job.by);
  switch (job.kind) {
    case Kind::kShuffle:
      options.sort.by = shard::SortBy::kRandom;
      break;
    case Kind::kReshard:
      options.sort.by = shard::SortBy::kPlace;
      break;
    case Kind::kMapReduce:
      options.sort.by = shard::SortBy::kText;
      options.sort.field = shard::kGroupField;
      break;
    default:
      options.sort.by = job.by.empty() ? shard::SortBy::kKey
                        : job.number   ? shard::SortBy::kNumber
                                       : shard::SortBy::kText;
  }
  const bool between = job.kind == Kind::kMapReduce;
  options.name =
      MR_TRY(shard::OutputName::parse(between ? sorted_pattern(job, place.setup.job) : job.output));
  options.limits = {job.max_bytes, job.max_samples};
  options.output.stores = &place.stores;
  options.output.put = written_once(place.setup);
  return options;
}

}  // namespace millrace::jobs
