// millrace rm: removes objects.
#include <cstdint>
#include <map>

#include "base/threads.h"
#include "base/units.h"
#include "cli/copying.h"
#include "shard/names.h"

namespace millrace::cli {

namespace {

struct RmFlags {
  std::vector<std::string> addresses;
  bool recursive = false;
  bool missing_is_fine = false;
  bool incomplete = false;
};

// S3 deletes what is not there without a word; a person who names objects wants to know. Takes them out.
Result<std::vector<std::string>> take_missing(std::vector<transfer::Choice>& choices) {
  std::vector<uint8_t> is_there(choices.size(), 1);  // a byte each: threads write beside each other
  MR_TRY(run_each(choices.size(), kDefaultStreams, [&](size_t i) -> Status {
    if (!choices[i].is_listed) is_there[i] = MR_TRY(transfer::find_head(choices[i].location)).has_value();
    return {};
  }));
  std::vector<std::string> missing;
  std::vector<transfer::Choice> there;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (is_there[i]) {
      there.push_back(std::move(choices[i]));
    } else {
      missing.push_back(choices[i].location.text());
    }
  }
  choices = std::move(there);
  return missing;
}

// By bucket, as many in one request as there may be.
Status remove_chosen(const std::vector<transfer::Choice>& choices) {
  std::map<std::pair<transfer::Store*, std::string>, std::vector<std::string>> by_bucket;
  for (const transfer::Choice& choice : choices)
    by_bucket[{choice.location.store, choice.location.bucket}].push_back(choice.location.key);
  for (const auto& [bucket, keys] : by_bucket) {
    const transfer::Location root{bucket.first, bucket.second, "", bucket.first->url(bucket.second, "")};
    if (keys.size() == 1) {
      MR_TRY(transfer::remove_object(root.with_key(keys.front())));
    } else {
      MR_TRY(transfer::remove_all({root, ""}, keys));
    }
  }
  return {};
}

// Aborts uploads: their parts go, objects stay.
Status abort_uploads(Shell& shell, const RmFlags& flags) {
  transfer::Stores* stores = MR_TRY(shell.stores());
  const auto recursion = flags.recursive ? transfer::Recursion::kYes : transfer::Recursion::kNo;
  uint64_t aborted = 0;
  for (const std::string& address : flags.addresses) {
    for (const std::string& one : MR_TRY(shard::expand_braces(address))) {
      const transfer::Location location = MR_TRY(stores->find(one));
      if (location.bucket.empty()) return make_error(Code::kInvalid, "{} names no bucket", location.text());
      if (location.key.empty() && !flags.recursive)
        return make_error(Code::kInvalid, "{} is a bucket", location.text())
            .with_hint("add -r to abort all uploads in it");
      for (const transfer::UploadSummary& upload : MR_TRY(choose_uploads(location, recursion))) {
        const transfer::Location object = location.with_key(upload.key);
        if (shell.dry_run)
          say_step(shell, "abort the upload of", object.text());
        else
          MR_TRY(transfer::abort_upload(object, upload.id));
        ++aborted;
      }
    }
  }
  if (aborted == 0 && !flags.missing_is_fine)
    return make_error(Code::kNotFound, "no upload is under way there")
        .with_hint("millrace ls --incomplete shows those that are; -r aborts all below a prefix");
  if (shell.dry_run) return {};
  if (shell.json)
    Shell::print({{"aborted", aborted}});
  else
    shell.say(fmt::format("aborted {} upload{}", format_count(aborted), aborted == 1 ? "" : "s"));
  return {};
}

Status run(Shell& shell, const RmFlags& flags) {
  if (flags.incomplete) return abort_uploads(shell, flags);
  const auto recursion = flags.recursive ? transfer::Recursion::kYes : transfer::Recursion::kNo;
  auto chosen = choose(shell, flags.addresses, recursion);
  if (!chosen && flags.missing_is_fine && chosen.error().code() == Code::kNotFound) return {};
  std::vector<transfer::Choice> choices = MR_TRY(std::move(chosen));
  const std::vector<std::string> missing = MR_TRY(take_missing(choices));
  if (shell.dry_run) {
    for (const transfer::Choice& choice : choices) say_step(shell, "remove", choice.location.text());
  } else {
    MR_TRY(remove_chosen(choices));
  }
  if (shell.dry_run) {
    shell.say(fmt::format("nothing was removed: this was a dry run"));
  } else if (shell.json) {
    Shell::print({{"removed", choices.size()}});
  } else if (!choices.empty() || missing.empty()) {
    shell.say(
        fmt::format("removed {} object{}", format_count(choices.size()), choices.size() == 1 ? "" : "s"));
  }
  if (missing.empty() || flags.missing_is_fine) return {};
  if (missing.size() == 1) {
    return make_error(Code::kNotFound, "{} does not exist", missing.front())
        .with_hint("millrace ls shows what there is");
  }
  return make_error(Code::kNotFound, "{} of {} objects do not exist; the first: {}", missing.size(),
                    missing.size() + choices.size(), missing.front())
      .with_hint("millrace ls shows what there is");
}

}  // namespace

void add_rm(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("rm", "Remove objects");
  verb->fallthrough();
  auto flags = std::make_shared<RmFlags>();
  verb->add_option("objects", flags->addresses, "Addresses, with ranges and globs")
      ->required()
      ->type_name("URL");
  verb->add_flag("-r,--recursive", flags->recursive, "All that is below a prefix or in a bucket");
  verb->add_flag("-f,--force", flags->missing_is_fine, "Nothing to remove is not an error");
  verb->add_flag("--incomplete", flags->incomplete,
                 "Abort uploads in parts that were begun and not completed; objects stay");
  add_dry_run(*verb, shell);
  verb->footer(
      "Examples:\n"
      "  millrace rm -r --incomplete mr://imagenet\n"
      "  millrace rm mr://imagenet/train-000000.tar\n"
      "  millrace rm 'mr://imagenet/tmp-*'\n"
      "  millrace rm -r mr://imagenet/old/");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
