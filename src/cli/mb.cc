// millrace mb: makes buckets. millrace bucket: looks at and changes their settings.
#include <algorithm>
#include <optional>

#include "base/number.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/copying.h"
#include "cli/remote.h"
#include "cli/upstream_flags.h"
#include "store/bucket_json.h"

namespace millrace::cli {

namespace {

// Of buckets of a cluster.
struct RedundancyFlags {
  std::string redundancy;
  std::optional<unsigned> floor;

  void add_to(CLI::App& verb) {
    verb.add_option("--redundancy", redundancy,
                    "Of a cluster's bucket: k+m such as 4+2 (any 4 of 6 slices give an object), copies=3, or "
                    "none; objects that are there are encoded anew")
        ->type_name("K+M");
    verb.add_option(
            "--floor", floor,
            "Slices without which a write is refused, when drives lack; default k+1, or k where m is 0")
        ->type_name("N");
  }
  // For a bucket that is being made.
  std::vector<net::HeaderField> headers() const {
    std::vector<net::HeaderField> headers;
    if (!redundancy.empty()) headers.emplace_back("x-millrace-redundancy", redundancy);
    if (floor) headers.emplace_back("x-millrace-floor", fmt::format("{}", *floor));
    return headers;
  }
  // What the node is told; checked here as far as that is possible without it.
  Result<Json> settings() const {
    Json json = Json::object();
    if (!redundancy.empty()) json["redundancy"] = redundancy;
    if (floor) json["floor"] = *floor;
    if (!redundancy.empty()) MR_TRY(store::change_settings({}, json));
    return json;
  }
};

// "10GB", "100000", or "none": 0 is no limit.
struct QuotaFlags {
  std::string bytes;
  std::string objects;

  void add_to(CLI::App& verb) {
    verb.add_option("--quota", bytes,
                    "What all objects may have together, such as 10GB or 2TiB; none: no limit. Writes beyond "
                    "it are answered 507")
        ->type_name("SIZE");
    verb.add_option("--quota-objects", objects, "How many objects there may be; none: any number")
        ->type_name("N");
  }
  Status add_settings(Json& settings) const {
    const auto refuse = [](std::string_view flag) {
      return make_error(Code::kInvalid, "{} 0 would let nobody write", flag).with_hint("none is no limit");
    };
    if (!bytes.empty()) {
      const uint64_t limit = bytes == "none" ? 0 : MR_TRY(parse_bytes(bytes).within("--quota"));
      if (limit == 0 && bytes != "none") return refuse("--quota");
      settings["quota_bytes"] = limit;
    }
    if (objects.empty()) return {};
    const auto limit = objects == "none" ? std::optional<uint64_t>(0) : parse_number<uint64_t>(objects);
    if (!limit)
      return make_error(Code::kInvalid, "--quota-objects {} is not a number", printable(objects, 32));
    if (*limit == 0 && objects != "none") return refuse("--quota-objects");
    settings["quota_objects"] = *limit;
    return {};
  }
};

std::string quota_text(const Json& bucket) {
  std::string text;
  const auto add = [&](const char* limit, const char* used, const char* flag, const auto& format) {
    if (!bucket.contains(limit)) return;
    text += fmt::format(" {}={}", flag, format(bucket.at(limit).get<uint64_t>()));
    if (bucket.contains(used)) text += fmt::format(" ({} used)", format(bucket.at(used).get<uint64_t>()));
  };
  add("quota_bytes", "used_bytes", "quota", format_bytes);
  add("quota_objects", "used_objects", "quota-objects", format_count);
  return text;
}

struct MakeFlags {
  std::vector<std::string> addresses;
  RedundancyFlags redundancy;
  QuotaFlags quota;
};

struct BucketFlags {
  std::string address;
  RedundancyFlags redundancy;
  QuotaFlags quota;
  std::string durability;
  std::string etag;
  std::string verify;
  std::string anonymous_read;
  std::string transforms;
  UpstreamFlags upstream;
  std::string endpoint;
};

Result<transfer::Location> bucket_location(Shell& shell, const std::string& address) {
  transfer::Stores* stores = MR_TRY(shell.stores());
  transfer::Location location = MR_TRY(stores->find(address));
  if (location.bucket.empty() || !location.key.empty()) {
    return make_error(Code::kInvalid, "{} is not the name of a bucket", address)
        .with_hint("for example mr://imagenet");
  }
  return location;
}

Status make(Shell& shell, const MakeFlags& flags) {
  Json settings = MR_TRY(flags.redundancy.settings());
  MR_TRY(flags.quota.add_settings(settings));
  for (const std::string& address : flags.addresses) {
    const transfer::Location location = MR_TRY(bucket_location(shell, address));
    if (shell.dry_run) {
      say_step(shell, "make", location.text());
      continue;
    }
    MR_TRY(transfer::make_bucket(location, flags.redundancy.headers()));
    Json made = {{"bucket", location.bucket}};
    if (!settings.empty()) {
      const Json now = MR_TRY(administer(*location.store, {"PUT", "buckets/" + location.bucket, "", settings})
                                  .within(location.text() + " was made, but its settings cannot be changed"));
      for (const char* name : {"redundancy", "floor", "quota_bytes", "quota_objects"}) {
        if (now.contains(name)) made[name] = now.at(name);
      }
    }
    if (shell.json) Shell::print(made);
    if (!shell.json) shell.say(fmt::format("made {}", location.text()));
  }
  return {};
}

// A bucket by its address, or by its name at the node that --endpoint names; no bucket where none is named.
Result<transfer::Location> find_bucket(Shell& shell, const BucketFlags& flags) {
  if (flags.address.find("://") != std::string::npos) {
    if (!flags.endpoint.empty())
      return make_error(Code::kInvalid, "{} says which node is meant, and so does --endpoint", flags.address);
    return bucket_location(shell, flags.address);
  }
  transfer::Stores* stores = MR_TRY(shell.stores());
  transfer::Location location =
      MR_TRY(flags.endpoint.empty() ? stores->find_default() : stores->find(flags.endpoint));
  location.bucket = flags.address;
  return location;
}

Status change(Shell& shell, const BucketFlags& flags) {
  Json settings = MR_TRY(flags.redundancy.settings());
  MR_TRY(flags.quota.add_settings(settings));
  if (!flags.durability.empty()) settings["durability"] = flags.durability;
  if (!flags.etag.empty()) settings["etag"] = flags.etag;
  if (!flags.verify.empty()) settings["verify"] = flags.verify;
  if (!flags.anonymous_read.empty()) settings["anonymous_read"] = flags.anonymous_read == "on";
  if (!flags.transforms.empty()) settings["transforms"] = flags.transforms;
  Json upstream = MR_TRY(flags.upstream.settings(shell));
  if (!upstream.is_null()) settings["upstream"] = std::move(upstream);
  const bool all = flags.address.empty();
  if (all && !settings.empty()) {
    return make_error(Code::kInvalid, "settings are changed of one bucket at a time")
        .with_hint("millrace bucket NAME …; millrace bucket lists them");
  }
  const transfer::Location bucket = MR_TRY(find_bucket(shell, flags));
  Json answer = MR_TRY(administer(*bucket.store, {"GET", "buckets", "", Json()}));
  if (!all) {
    const Json& list = answer.at("buckets");
    const auto found =
        std::ranges::find_if(list, [&](const Json& one) { return one.at("name") == bucket.bucket; });
    if (found == list.end()) {
      return make_error(Code::kNotFound, "there is no bucket {}", bucket.bucket)
          .with_hint("millrace mb makes one, millrace bucket lists them");
    }
    answer = Json(*found);
  }
  if (!settings.empty() && shell.dry_run) {
    say_step(shell, "change", bucket.bucket, without_secrets(settings).dump());
    return {};
  }
  if (!settings.empty())
    answer = MR_TRY(administer(*bucket.store, {"PUT", "buckets/" + bucket.bucket, "", settings}));
  if (shell.json) {
    Shell::print(answer);
    return {};
  }
  const Json list = all ? answer.at("buckets") : Json::array({answer});
  for (const Json& one : list) {
    fmt::print("{}  durability={} etag={} verify={} anonymous-read={} redundancy={} floor={}{}{}{}\n",
               one.at("name").get<std::string>(), one.at("durability").get<std::string>(),
               one.at("etag").get<std::string>(), one.at("verify").get<std::string>(),
               one.at("anonymous_read").get<bool>() ? "on" : "off", one.at("redundancy").get<std::string>(),
               one.at("floor").get<unsigned>(), quota_text(one),
               one.contains("transforms") ? " transforms=" + one.at("transforms").get<std::string>() : "",
               upstream_text(one));
  }
  return {};
}

}  // namespace

void add_mb(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("mb", "Make buckets");
  verb->fallthrough();
  auto flags = std::make_shared<MakeFlags>();
  verb->add_option("buckets", flags->addresses, "Addresses of buckets")->required()->type_name("URL");
  flags->redundancy.add_to(*verb);
  flags->quota.add_to(*verb);
  add_dry_run(*verb, shell);
  verb->footer(
      "Examples:\n  millrace mb mr://imagenet\n  millrace mb mr://imagenet --redundancy 4+2\n"
      "  millrace mb mr://scratch --quota 500GB");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return make(shell, *flags); }; });
}

void add_bucket(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("bucket", "Show or change the settings of a node's buckets");
  verb->fallthrough();
  auto flags = std::make_shared<BucketFlags>();
  verb->add_option("bucket", flags->address, "Name, or address (mr://train); none: all");
  verb->add_option("--durability", flags->durability,
                   "flush: survives power loss (default); os: as soon as the system likes")
      ->type_name("flush|os");
  verb->add_option(
          "--etag", flags->etag,
          "auto: MD5 up to 64 KiB, up to 16 MiB for S3 clients without a checksum of their own; md5: always; "
          "fast: never")
      ->type_name("auto|md5|fast");
  verb->add_option("--verify", flags->verify,
                   "When checksums are compared, beside the scrubber: first (default): when a block is first "
                   "read from "
                   "the drive; read: on every read; scrub: by the scrubber alone")
      ->type_name("first|read|scrub");
  verb->add_option("--anonymous-read", flags->anonymous_read, "on: everyone may read without a key")
      ->check(CLI::IsMember({"on", "off"}).description(""))
      ->type_name("on|off");
  verb->add_option("--transforms", flags->transforms,
                   "Transforms that keys without the right admin may use here: names with commas, * or none "
                   "(default)")
      ->type_name("NAMES");
  flags->redundancy.add_to(*verb);
  flags->quota.add_to(*verb);
  flags->upstream.add_to(*verb);
  verb->add_option("--endpoint", flags->endpoint,
                   "The node; default MILLRACE_ENDPOINT or http://127.0.0.1:9400")
      ->type_name("URL");
  add_dry_run(*verb, shell);
  verb->footer(
      "Examples:\n  millrace bucket\n  millrace bucket train --anonymous-read on\n  millrace bucket scratch "
      "--durability os --etag fast\n  millrace bucket train --redundancy copies=3 --floor 2\n"
      "  millrace bucket train --quota 10GB --quota-objects 100000\n  millrace bucket train --quota none\n"
      "  millrace bucket train --transforms thumbs,tensors\n"
      "  millrace bucket train --upstream s3://imagenet/train --keys ~/.aws/credentials --check 3600");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return change(shell, *flags); }; });
}

}  // namespace millrace::cli
