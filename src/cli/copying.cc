// Turns the sources and the destination that a person wrote into copies, and runs them.
#include "cli/copying.h"

#include <filesystem>

#include "base/text.h"
#include "base/units.h"
#include "shard/names.h"

namespace millrace::cli {

namespace {

using transfer::Choice;
using transfer::Copy;
using transfer::Place;
using transfer::Recursion;

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

struct Source {
  Place place;
  std::string relative;
  uint64_t size = 0;
};

Status add_local(std::vector<Source>& sources, const std::string& word, const CopyFlags& flags) {
  if (word == transfer::kStandardStream) {
    sources.push_back({{std::nullopt, word}, "", 0});
    return {};
  }
  for (const std::string& name : MR_TRY(shard::expand_names(word))) {
    if (is_directory(name)) {
      if (!flags.recursive)
        return make_error(Code::kInvalid, "{} is a directory", name)
            .with_hint("add -r to take all that is in it");
      const Place root{std::nullopt, name};
      for (const auto& [relative, entry] : MR_TRY(transfer::read_tree(root)))
        sources.push_back({transfer::place_below(root, relative), relative, entry.size});
      continue;
    }
    const uint64_t size = MR_TRY(file_size(name));
    sources.push_back({{std::nullopt, name}, std::filesystem::path(name).filename().string(), size});
  }
  return {};
}

Result<std::vector<Source>> find_sources(Shell& shell, const CopyFlags& flags) {
  std::vector<Source> sources;
  for (size_t i = 0; i + 1 < flags.words.size(); ++i) {
    const std::string& word = flags.words[i];
    if (!net::is_url(word)) {
      MR_TRY(add_local(sources, word, flags));
      continue;
    }
    const auto recursion = flags.recursive ? Recursion::kYes : Recursion::kNo;
    for (Choice& choice : MR_TRY(choose(shell, {word}, recursion)))
      sources.push_back({{std::move(choice.location), ""}, std::move(choice.relative), choice.size});
  }
  return sources;
}

// One thing to one name, unless the destination is a directory, a bucket, or written with a "/" at its end.
bool is_exact(const Place& to, const CopyFlags& flags, size_t sources) {
  if (sources != 1 || flags.recursive || flags.words.size() != 2) return false;
  if (!to.object)
    return to.path == transfer::kStandardStream || (!to.path.ends_with('/') && !is_directory(to.path));
  return !to.object->key.empty() && !to.object->key.ends_with('/');
}

Result<std::vector<Copy>> plan_copies(Shell& shell, const CopyFlags& flags, Direction direction) {
  const Place to = MR_TRY(find_place(shell, flags.words.back()));
  if (direction == Direction::kUp && !to.object)
    return make_error(Code::kInvalid, "{} is not the address of a store", to.path)
        .with_hint("for example mr://bucket/");
  if (direction == Direction::kDown && to.object)
    return make_error(Code::kInvalid, "get writes to files, and {} is in a store", to.text())
        .with_hint("use millrace cp");
  if (to.object && to.object->bucket.empty())
    return make_error(Code::kInvalid, "{} names no bucket", to.text()).with_hint("millrace mb makes one");
  std::vector<Source> sources = MR_TRY(find_sources(shell, flags));
  const bool exact = is_exact(to, flags, sources.size());
  std::vector<Copy> copies;
  uint64_t bytes = 0;
  for (Source& source : sources) {
    if (direction == Direction::kDown && !source.place.object)
      return make_error(Code::kInvalid, "{} is not the address of an object", source.place.path);
    if (direction == Direction::kUp && source.place.object)
      return make_error(Code::kInvalid, "put sends files, and {} is in a store", source.place.text())
          .with_hint("use millrace cp");
    if (!exact && source.relative.empty())
      return make_error(Code::kInvalid, "standard input needs a name")
          .with_hint("for example mr://bucket/name.tar");
    if (!exact && !to.object && to.path != transfer::kStandardStream)
      MR_TRY(transfer::check_relative(source.relative));
    const bool keeps_place = exact || (!to.object && to.path == transfer::kStandardStream);
    bytes += source.size;
    Place place = keeps_place ? to : transfer::place_below(to, source.relative);
    copies.push_back({std::move(source.place), std::move(place), source.size});
  }
  shell.progress.expect(bytes);
  return copies;
}

}  // namespace

void CopyFlags::add_to(CLI::App& verb, Shell& shell) {
  verb.add_option("words", words, "Sources, then the destination")
      ->required()
      ->expected(2, -1)
      ->type_name("SOURCE... DEST");
  verb.add_flag("-r,--recursive", recursive, "All that is below a directory or prefix");
  verb.add_option("-j,--jobs", jobs, "Requests at a time")
      ->check(CLI::Range(1U, 256U))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--content-type", content_type, "Content type of what is sent")->type_name("TYPE");
  verb.add_option("--metadata", metadata, "name=value, kept with the object; may be repeated")
      ->type_name("NAME=VALUE");
  add_dry_run(verb, shell);
}

Result<transfer::TransferOptions> CopyFlags::options(Shell& shell) const {
  transfer::TransferOptions options;
  options.jobs = jobs;
  options.progress = &shell.progress;
  if (!content_type.empty()) options.put.headers.emplace_back("content-type", content_type);
  for (const std::string& pair : metadata) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      return make_error(Code::kInvalid, "--metadata {} is not name=value", pair);
    options.put.headers.emplace_back("x-amz-meta-" + lower_case(pair.substr(0, equals)),
                                     pair.substr(equals + 1));
  }
  return options;
}

void say_step(const Shell& shell, const std::string& what, const std::string& name, const std::string& to) {
  if (shell.json) {
    Json step = {{"would", what}, {"name", name}};
    if (!to.empty()) step["to"] = to;
    Shell::print(step);
  } else {
    fmt::print("would {} {}{}\n", what, printable(name), to.empty() ? "" : " to " + printable(to));
  }
}

Result<Place> find_place(Shell& shell, const std::string& word) {
  if (!net::is_url(word)) return Place{std::nullopt, word};
  transfer::Stores* stores = MR_TRY(shell.stores());
  return Place{MR_TRY(stores->find(word)), ""};
}

Result<std::vector<Choice>> choose(Shell& shell, const std::vector<std::string>& addresses,
                                   Recursion recursion) {
  transfer::Stores* stores = MR_TRY(shell.stores());
  std::vector<Choice> all;
  for (const std::string& address : addresses) {
    for (const std::string& one : MR_TRY(shard::expand_braces(address))) {
      const transfer::Location location = MR_TRY(stores->find(one));
      // A query belongs to one object and is sent as it is.
      if (!location.url.query.empty()) {
        all.push_back({location, location.key.substr(location.key.rfind('/') + 1), 0});
        continue;
      }
      for (Choice& choice : MR_TRY(transfer::choose_objects(location, recursion)))
        all.push_back(std::move(choice));
    }
  }
  return all;
}

Result<std::vector<transfer::UploadSummary>> choose_uploads(const transfer::Location& location,
                                                            Recursion recursion) {
  const bool glob = transfer::has_glob(location.key);
  const std::string prefix = location.key.substr(0, location.key.find_first_of("*?["));
  auto uploads = MR_TRY(transfer::list_uploads(location.with_key(glob ? prefix : location.key)));
  std::erase_if(uploads, [&](const transfer::UploadSummary& upload) {
    if (glob) return !transfer::matches_glob(upload.key, location.key);
    return recursion == Recursion::kNo && upload.key != location.key;
  });
  return uploads;
}

Status report_copies(Shell& shell, const transfer::CopyReport& report, const Stopwatch& watch, Json more) {
  const double seconds = watch.seconds();
  if (report.failures.size() == 1 && report.copied == 0) return report.failures.front().copy();
  if (shell.json) {
    more["copied"] = report.copied;
    more["bytes"] = report.bytes;
    more["resumed_bytes"] = report.resumed_bytes;
    more["failed"] = report.failures.size();
    more["seconds"] = seconds;
    Shell::print(more);
  } else {
    const auto speed = static_cast<uint64_t>(static_cast<double>(report.bytes - report.resumed_bytes) /
                                             std::max(seconds, 1e-6));
    shell.say(fmt::format(
        "copied {} object{}, {} in {:.1f} s ({}/s){}", format_count(report.copied),
        report.copied == 1 ? "" : "s", format_bytes(report.bytes), seconds, format_bytes(speed),
        report.resumed_bytes > 0 ? fmt::format("; {} were there already", format_bytes(report.resumed_bytes))
                                 : ""));
  }
  if (report.failures.empty()) return {};
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < std::min(report.failures.size(), kShown); ++i)
    fmt::print(stderr, "millrace: {}\n", printable(report.failures[i].message()));
  // What is wrong is in the store or on the drive, not in the command.
  const Code first = report.failures.front().code();
  return make_error(first == Code::kInvalid ? Code::kUnsupported : first, "{} of {} could not be copied",
                    report.failures.size(), report.failures.size() + report.copied)
      .with_hint(report.failures.front().hint());
}

Status run_copies(Shell& shell, const CopyFlags& flags, Direction direction) {
  const Stopwatch watch;
  if (shell.json && flags.words.back() == transfer::kStandardStream)
    return make_error(Code::kInvalid, "--json and - both want standard output");
  const std::vector<Copy> copies = MR_TRY(plan_copies(shell, flags, direction));
  transfer::TransferOptions options = MR_TRY(flags.options(shell));
  if (shell.dry_run) {
    for (const Copy& copy : copies) say_step(shell, "copy", copy.from.text(), copy.to.text());
    return {};
  }
  // One stream has one order.
  if (flags.words.back() == transfer::kStandardStream) options.jobs = 1;
  transfer::CopyReport report;
  {
    const std::string doing = direction == Direction::kUp     ? "sending"
                              : direction == Direction::kDown ? "fetching"
                                                              : "copying";
    const auto bar = shell.bar(doing, "objects");
    report = MR_TRY(transfer::copy_all(copies, options));
  }
  return report_copies(shell, report, watch, Json::object());
}

}  // namespace millrace::cli
