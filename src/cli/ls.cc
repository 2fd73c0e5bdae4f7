// millrace ls: lists buckets and objects, page by page as they arrive.
#include <cstdio>

#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/colour.h"
#include "cli/copying.h"
#include "shard/names.h"

namespace millrace::cli {

namespace {

struct LsFlags {
  std::vector<std::string> addresses;
  bool recursive = false;
  bool names_only = false;
  bool incomplete = false;
  bool cached = false;
};

std::string when(int64_t wall) {
  // "2026-11-15T22:50:34.123Z" without its decoration.
  std::string text = format_iso_date(wall).substr(0, 19);
  text[10] = ' ';
  return text;
}

void print_object(const Shell& shell, const LsFlags& flags, const transfer::ObjectSummary& object) {
  if (shell.json) {
    Json json = {{"key", object.key},
                 {"size", object.size},
                 {"etag", object.etag},
                 {"modified", format_iso_date(object.modified_ms)}};
    if (object.is_cached) json["cached"] = *object.is_cached;
    Shell::print(json);
  } else if (flags.names_only) {
    fmt::print("{}\n", printable(object.key));
  } else {
    const std::string_view cached = !flags.cached                      ? ""
                                    : object.is_cached.value_or(false) ? "  cached"
                                                                       : "        ";
    fmt::print("{:>10}  {}{}  {}\n", format_bytes(object.size), when(object.modified_ms), cached,
               printable(object.key));
  }
}

void print_prefix(const Shell& shell, const LsFlags& flags, const std::string& prefix) {
  if (shell.json) {
    Shell::print({{"prefix", prefix}});
  } else if (flags.names_only) {
    fmt::print("{}\n", printable(prefix));
  } else {
    fmt::print("{:>10}  {:{}}  {}\n", "", "", flags.cached ? 27 : 19,
               paint(Stream::kOutput, Colour::kBlue, printable(prefix)));
  }
}

Status list_store(const transfer::Location& store, const Shell& shell, const LsFlags& flags) {
  for (const transfer::BucketSummary& bucket : MR_TRY(transfer::list_buckets(store))) {
    if (shell.json) {
      Shell::print({{"bucket", bucket.name}, {"made", format_iso_date(bucket.made_ms)}});
    } else if (flags.names_only) {
      fmt::print("{}\n", bucket.name);
    } else {
      fmt::print("{}  {}\n", when(bucket.made_ms), bucket.name);
    }
  }
  return {};
}

// Uploads in parts that were begun and neither completed nor aborted. They take room until they are removed.
Status list_incomplete(const transfer::Location& location, const Shell& shell, const LsFlags& flags) {
  if (location.bucket.empty()) {
    for (const transfer::BucketSummary& bucket : MR_TRY(transfer::list_buckets(location))) {
      transfer::Location inside = location;
      inside.bucket = bucket.name;
      MR_TRY(list_incomplete(inside, shell, flags));
    }
    return {};
  }
  for (const transfer::UploadSummary& upload : MR_TRY(choose_uploads(location, transfer::Recursion::kYes))) {
    const auto parts = transfer::list_parts(location.with_key(upload.key), upload.id);
    if (!parts && parts.error().code() == Code::kNotFound) continue;  // it has ended meanwhile
    if (!parts) return parts.error().copy();
    uint64_t bytes = 0;
    for (const transfer::Part& part : *parts) bytes += part.size;
    if (shell.json) {
      Shell::print({{"bucket", location.bucket},
                    {"key", upload.key},
                    {"upload", upload.id},
                    {"begun", format_iso_date(upload.begun_ms)},
                    {"parts", parts->size()},
                    {"size", bytes}});
    } else if (flags.names_only) {
      fmt::print("{}\n", printable(upload.key));
    } else {
      fmt::print("{:>10}  {}  {}  {} parts  {}\n", format_bytes(bytes), when(upload.begun_ms), upload.id,
                 parts->size(), printable(location.with_key(upload.key).text()));
    }
  }
  return {};
}

Status list_location(const transfer::Location& location, const Shell& shell, const LsFlags& flags) {
  if (flags.incomplete) return list_incomplete(location, shell, flags);
  if (location.bucket.empty()) return list_store(location, shell, flags);
  const bool glob = transfer::has_glob(location.key);
  const std::string prefix = location.key.substr(0, location.key.find_first_of("*?["));
  const auto depth = flags.recursive || glob ? transfer::Depth::kAll : transfer::Depth::kOneLevel;
  uint64_t found = 0;
  MR_TRY(transfer::list_objects(location.with_key(prefix), depth, [&](transfer::Listing& page) -> Status {
    for (const std::string& one : page.prefixes) print_prefix(shell, flags, one);
    found += page.prefixes.size();
    for (const transfer::ObjectSummary& object : page.objects) {
      if (glob && !transfer::matches_glob(object.key, location.key)) continue;
      print_object(shell, flags, object);
      ++found;
    }
    if (std::fflush(stdout) != 0) return make_system_error(errno, "writing standard output");
    return {};
  }));
  if (found > 0 || location.key.empty()) return {};
  return make_error(Code::kNotFound, "nothing begins with {}", location.text());
}

Status run(Shell& shell, const LsFlags& flags) {
  transfer::Stores* stores = MR_TRY(shell.stores());
  if (flags.addresses.empty()) {
    const transfer::Location store = MR_TRY(stores->find_default());
    return list_store(store, shell, flags);
  }
  for (const std::string& address : flags.addresses) {
    for (const std::string& one : MR_TRY(shard::expand_braces(address))) {
      const transfer::Location location = MR_TRY(stores->find(one));
      MR_TRY(list_location(location, shell, flags));
    }
  }
  return {};
}

}  // namespace

void add_ls(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("ls", "List buckets, or the objects in one");
  verb->fallthrough();
  auto flags = std::make_shared<LsFlags>();
  verb->add_option("addresses", flags->addresses,
                   "A store, bucket, prefix or glob (default: the store of mr://)")
      ->type_name("URL");
  verb->add_flag("-r,--recursive", flags->recursive, "All levels, not one");
  verb->add_flag("--names", flags->names_only, "Names only");
  verb->add_flag("--cached", flags->cached,
                 "Also says of each object of a bucket in front of other storage whether it is stored here");
  verb->add_flag("--incomplete", flags->incomplete,
                 "Uploads in parts that were begun and not completed, instead of objects");
  verb->footer(
      "Examples:\n"
      "  millrace ls\n"
      "  millrace ls http://store:9400/\n"
      "  millrace ls mr://imagenet/train/\n"
      "  millrace ls --cached mr://imagenet\n"
      "  millrace ls --incomplete mr://imagenet\n"
      "  millrace ls --names 'mr://imagenet/train-*.tar' | wc -l");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
