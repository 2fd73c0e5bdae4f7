// Walking what the verbs registered on the parser.
#include "cli/command_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace millrace::cli {

namespace {

// A validator may add its own words behind a colon; they repeat what the help says.
std::string type_of(const CLI::Option& option) {
  const std::string whole = option.get_type_name();
  return whole.substr(0, whole.find(':'));
}

bool are_choices(std::string_view type) {
  return type.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-|") == std::string_view::npos;
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return parts;
}

Takes what_is_taken(std::string_view type) {
  constexpr std::string_view kFiles[] = {"FILE", "SHARD", "SOURCE", "FROM", "OUTPUT"};
  if (are_choices(type)) return Takes::kChoice;
  if (type.starts_with("DIR")) return Takes::kDirectory;
  const bool is_file = std::ranges::any_of(kFiles, [&](auto word) { return type.starts_with(word); });
  return is_file ? Takes::kFile : Takes::kText;
}

Argument describe_option(const CLI::Option& option) {
  Argument argument;
  argument.help = option.get_description();
  argument.required = option.get_required();
  argument.repeats = option.get_items_expected_max() >= CLI::detail::expected_max_vector_size;
  for (const std::string& name : option.get_snames()) argument.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) argument.names.push_back("--" + name);
  if (option.get_type_size() == 0) return argument;
  const std::string type = type_of(option);
  argument.takes = what_is_taken(type);
  argument.placeholder = type;
  argument.default_value = option.get_default_str();
  if (argument.takes == Takes::kChoice) argument.choices = split(type, "|");
  // The place of a plain word is better known by its name than as TEXT.
  if (type == "TEXT" && argument.names.empty()) {
    argument.placeholder = option.get_name();
    std::ranges::transform(argument.placeholder, argument.placeholder.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
  }
  return argument;
}

// A footer is paragraphs, and one that begins with "Example".
void read_footer(const std::string& footer, Command& command) {
  for (const std::string& paragraph : split(footer, "\n\n")) {
    std::vector<std::string> lines = split(paragraph, "\n");
    if (lines.empty()) continue;
    if (lines.front().starts_with("Example")) {
      for (size_t i = 1; i < lines.size(); ++i) command.examples.emplace_back(trim(lines[i]));
    } else {
      command.remarks.push_back(fmt::format("{}", fmt::join(lines, " ")));
    }
  }
}

Command describe_command(const CLI::App& app, const std::string& words) {
  Command command;
  command.words = words;
  command.summary = app.get_description();
  read_footer(app.get_footer(), command);
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; }))
    (option->nonpositional() ? command.flags : command.places).push_back(describe_option(*option));
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    command.verbs.push_back(describe_command(*verb, words + " " + verb->get_name()));
  return command;
}

void collect(const Command& command, std::vector<const Command*>& found) {
  found.push_back(&command);
  for (const Command& verb : command.verbs) collect(verb, found);
}

}  // namespace

Command describe(const CLI::App& program) {
  return describe_command(program, program.get_name());
}

std::vector<const Command*> with_verbs(const Command& command) {
  std::vector<const Command*> found;
  collect(command, found);
  return found;
}

}  // namespace millrace::cli
