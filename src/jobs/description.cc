// Reads, writes and judges descriptions of jobs.
#include "jobs/description.h"

#include <algorithm>
#include <utility>

#include "jobs/strict_json.h"
#include "shard/names.h"

namespace millrace::jobs {

namespace {

constexpr std::string_view kNames[] = {"map",      "transform", "copy",    "index",   "verify",
                                       "prefetch", "sort",      "shuffle", "reshard", "mapreduce"};
static_assert(std::size(kNames) == std::size(kKinds));
constexpr std::string_view kScheme = "mr://";

bool is_one_of(Kind kind, std::initializer_list<Kind> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

// A setting that somebody gave, and the kinds that it goes with.
struct Given {
  std::string_view name;
  bool is_given;
  std::initializer_list<Kind> kinds;
};

Status check_settings(const Description& job) {
  using enum Kind;
  const Description usual;
  const Given settings[] = {
      {"command", !job.command.empty(), {kMap}},
      {"mapper", !job.mapper.empty(), {kMapReduce}},
      {"combiner", !job.combiner.empty(), {kMapReduce}},
      {"reducer", !job.reducer.empty(), {kMapReduce}},
      {"files", !job.files.empty(), {kMap, kMapReduce}},
      {"on_error", job.on_error != usual.on_error, {kMap}},
      {"many", job.many, {kMap}},
      {"transform", !job.transform.empty(), {kTransform}},
      {"fields", !job.fields.empty(), {kVerify}},
      {"decode", job.decode, {kVerify}},
      {"by", !job.by.empty(), {kSort}},
      {"number", job.number, {kSort}},
      {"reverse", job.reverse, {kSort}},
      {"seed", job.seed != usual.seed, {kShuffle}},
      {"max_bytes", job.max_bytes != usual.max_bytes, {kSort, kShuffle, kReshard, kMapReduce}},
      {"max_samples", job.max_samples != usual.max_samples, {kSort, kShuffle, kReshard, kMapReduce}},
      {"output", !job.output.empty(), {kMap, kTransform, kCopy, kSort, kShuffle, kReshard, kMapReduce}},
  };
  for (const Given& setting : settings) {
    if (!setting.is_given || is_one_of(job.kind, setting.kinds)) continue;
    return make_error(Code::kInvalid, "\"{}\" does not go with a job of kind {}", setting.name,
                      kind_name(job.kind));
  }
  return {};
}

Status check_output(const Description& job) {
  if (!has_output(job.kind)) return {};
  if (job.output.empty())
    return make_error(Code::kInvalid, "a job of kind {} needs an output", kind_name(job.kind))
        .with_hint("for example mr://out/ or mr://out/part-%06d.tar");
  const ObjectAddress address = MR_TRY(parse_address(job.output));
  const bool is_numbered = is_of_ranks(job.kind) || job.kind == Kind::kMapReduce;
  if (!is_numbered && !address.key.empty() && !job.output.ends_with('/'))
    return make_error(Code::kInvalid, "{}: a job of kind {} keeps the names of its inputs", job.output,
                      kind_name(job.kind))
        .with_hint("give a prefix that ends in /, for example " + job.output + "/");
  if (is_numbered && !MR_TRY(shard::OutputName::parse(job.output)).numbered())
    return make_error(Code::kInvalid, "{}: shards that are cut anew need a number in their name", job.output)
        .with_hint("for example mr://out/part-%06d.tar");
  return {};
}

Status check_commands(const Description& job) {
  using enum Kind;
  const auto missing = [](std::string_view what) {
    return make_error(Code::kInvalid, "there is no {} to run", what);
  };
  if (job.kind == kMap && job.command.empty()) return missing("command");
  if (job.kind == kMapReduce && job.mapper.empty()) return missing("mapper");
  if (job.kind == kMapReduce && job.reducer.empty()) return missing("reducer");
  if (job.kind == kTransform && job.transform.empty())
    return make_error(Code::kInvalid, "which transform? The job does not name one");
  for (const char c : job.transform) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.')
      return make_error(Code::kInvalid, "\"{}\" is not the name of a transform",
                        printable(job.transform, 64));
  }
  size_t bytes = 0;
  for (const auto& [name, content] : job.files) {
    bytes += content.size();
    if (name.empty() || name.starts_with('.') || name.find('/') != std::string::npos || name.size() > 100)
      return make_error(Code::kInvalid, "\"{}\" cannot be the name of a file", printable(name, 64));
  }
  if (bytes > kMostFileBytes)
    return make_error(Code::kTooLarge, "the files of a job have {} bytes; {} are allowed", bytes,
                      kMostFileBytes)
        .with_hint("put large files into a bucket, or on every node");
  return {};
}

void add_words(Json& json, const char* name, const std::vector<std::string>& words) {
  if (!words.empty()) json[name] = words;
}

}  // namespace

std::string_view kind_name(Kind kind) {
  return kNames[static_cast<size_t>(kind)];
}

Result<Kind> parse_kind(std::string_view name) {
  for (const Kind kind : kKinds) {
    if (kind_name(kind) == name) return kind;
  }
  return make_error(Code::kInvalid, "there are no jobs of kind \"{}\"", printable(name, 32))
      .with_hint("map, transform, copy, index, verify, prefetch, sort, shuffle, reshard or mapreduce");
}

bool is_of_ranks(Kind kind) {
  return is_one_of(kind, {Kind::kSort, Kind::kShuffle, Kind::kReshard});
}

bool has_output(Kind kind) {
  return !is_one_of(kind, {Kind::kIndex, Kind::kVerify, Kind::kPrefetch});
}

Result<ObjectAddress> parse_address(std::string_view address) {
  const auto bad = [&] {
    return make_error(Code::kInvalid, "{} is no address in this store", printable(address, 200))
        .with_hint("for example mr://train/train-{000000..000127}.tar");
  };
  if (!address.starts_with(kScheme)) return bad();
  address.remove_prefix(kScheme.size());
  const size_t slash = address.find('/');
  ObjectAddress found{std::string(address.substr(0, slash)), ""};
  if (slash != std::string_view::npos) found.key = address.substr(slash + 1);
  if (found.bucket.empty()) return bad();
  return found;
}

Status check(const Description& job) {
  if (job.inputs.empty()) return make_error(Code::kInvalid, "the job has no inputs");
  for (const std::string& input : job.inputs) MR_TRY(parse_address(input));
  MR_TRY(check_settings(job));
  MR_TRY(check_output(job));
  MR_TRY(check_commands(job));
  if (job.on_error != "abort" && job.on_error != "skip" && job.on_error != "keep")
    return make_error(Code::kInvalid, "\"on_error\" is abort, skip or keep");
  if (job.number && job.by.empty()) return make_error(Code::kInvalid, "\"number\" needs a field to sort by");
  if (job.attempts < 1 || job.attempts > kMostAttempts)
    return make_error(Code::kInvalid, "a task has 1 to {} attempts", kMostAttempts);
  if (job.memory < (uint64_t{16} << 20))
    return make_error(Code::kInvalid, "a task needs at least 16 MiB of memory");
  if (job.note.size() > 1000) return make_error(Code::kTooLarge, "a note has at most 1000 bytes");
  return {};
}

std::string encode(const Description& job) {
  const Description usual;
  Json json = {{"kind", kind_name(job.kind)}, {"inputs", job.inputs}};
  if (job.recursive) json["recursive"] = true;
  if (!job.output.empty()) json["output"] = job.output;
  add_words(json, "command", job.command);
  add_words(json, "mapper", job.mapper);
  add_words(json, "combiner", job.combiner);
  add_words(json, "reducer", job.reducer);
  if (!job.files.empty()) json["files"] = job.files;
  if (job.on_error != usual.on_error) json["on_error"] = job.on_error;
  if (job.many) json["many"] = true;
  if (!job.transform.empty()) json["transform"] = job.transform;
  if (!job.fields.empty()) json["fields"] = job.fields;
  if (job.decode) json["decode"] = true;
  if (!job.by.empty()) json["by"] = job.by;
  if (job.number) json["number"] = true;
  if (job.reverse) json["reverse"] = true;
  if (job.seed != usual.seed) json["seed"] = job.seed;
  if (job.max_bytes != usual.max_bytes) json["max_bytes"] = job.max_bytes;
  if (job.max_samples != usual.max_samples) json["max_samples"] = job.max_samples;
  if (job.memory != usual.memory) json["memory"] = job.memory;
  if (job.attempts != usual.attempts) json["attempts"] = job.attempts;
  if (!job.note.empty()) json["note"] = job.note;
  return to_text(json);
}

Result<Description> decode_description(std::string_view text) {
  const Json json = MR_TRY(parse_json(text, "the job"));
  StrictObject object(json, "the job");
  Description job;
  std::string kind;
  object.take("kind", kind);
  object.take("inputs", job.inputs, kMostInputs);
  object.take("recursive", job.recursive);
  object.take("output", job.output);
  object.take("command", job.command, kMostWords);
  object.take("mapper", job.mapper, kMostWords);
  object.take("combiner", job.combiner, kMostWords);
  object.take("reducer", job.reducer, kMostWords);
  object.take("files", job.files, kMostFiles);
  object.take("on_error", job.on_error);
  object.take("many", job.many);
  object.take("transform", job.transform);
  object.take("fields", job.fields);
  object.take("decode", job.decode);
  object.take("by", job.by);
  object.take("number", job.number);
  object.take("reverse", job.reverse);
  object.take("seed", job.seed);
  object.take("max_bytes", job.max_bytes);
  object.take("max_samples", job.max_samples);
  object.take("memory", job.memory);
  object.take("attempts", job.attempts);
  object.take("note", job.note);
  MR_TRY(object.finish());
  job.kind = MR_TRY(parse_kind(kind));
  MR_TRY(check(job));
  return job;
}

}  // namespace millrace::jobs
