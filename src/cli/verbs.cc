// Finds the verb that words name, and suggests one for a misspelled word.
#include "cli/verbs.h"

#include <algorithm>

#include "base/settings.h"
#include "base/text.h"

namespace millrace::cli {

namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* find_below(const CLI::App& app, const std::string& name) {
  for (const CLI::App* verb : verbs_of(app)) {
    if (verb->get_name() == name) return verb;
  }
  return nullptr;
}

// All verbs at and below `app`, as they are written: "millrace tar cat".
void collect(const CLI::App& app, const std::string& written, std::vector<std::string>& found) {
  for (const CLI::App* verb : verbs_of(app)) {
    const std::string whole = written + " " + verb->get_name();
    if (verbs_of(*verb).empty())
      found.push_back(whole);
    else
      collect(*verb, whole, found);
  }
}

std::string last_word(const std::string& written) {
  return written.substr(written.rfind(' ') + 1);
}

// Verbs of several groups may have the name that was meant: `millrace verify` is one of tar and one of pls.
std::vector<std::string> nearest_verbs(const std::string& word, const std::vector<std::string>& verbs) {
  std::vector<std::string> names;
  for (const std::string& verb : verbs) names.push_back(last_word(verb));
  const std::string near = nearest_word(word, names);
  std::vector<std::string> nearest;
  if (near.empty()) return nearest;
  std::ranges::copy_if(verbs, std::back_inserter(nearest),
                       [&](const std::string& verb) { return last_word(verb) == near; });
  return nearest;
}

Error no_such_verb(const CLI::App& program, const std::string& group, const CLI::App& below,
                   const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(below)) names.push_back(group + " " + verb->get_name());
  std::vector<std::string> nearest = nearest_verbs(lower_case(word), names);
  if (nearest.empty() || last_word(nearest.front()) != lower_case(word)) {
    std::vector<std::string> all;
    collect(program, program.get_name(), all);
    for (std::string& verb : nearest_verbs(lower_case(word), all)) {
      if (std::ranges::find(nearest, verb) == nearest.end()) nearest.push_back(std::move(verb));
    }
  }
  Error error = make_error(Code::kInvalid, "{} has no verb \"{}\"", group, printable(word, 40));
  if (nearest.empty()) return std::move(error).with_hint(group + " --help, which lists the verbs");
  return std::move(error).with_hint(
      fmt::format("{}; {} --help lists the verbs", fmt::join(nearest, " or "), group));
}

}  // namespace

Status check_verb(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string group = app.get_name();
  for (size_t i = 0; i < words.size() && !verbs_of(*at).empty(); ++i) {
    const std::string& word = words[i];
    if (word == "--ca-file") ++i;  // the one option before a verb that takes a word
    if (word.starts_with('-')) continue;
    const CLI::App* verb = find_below(*at, word);
    if (verb == nullptr) return no_such_verb(app, group, *at, word);
    at = verb;
    group += " " + word;
  }
  return {};
}

}  // namespace millrace::cli
