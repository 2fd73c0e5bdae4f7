// millrace manual: the manual pages, one per verb, from the texts of --help.
//
// Plain roff with the macros of man(7). Everything that is not ASCII is written by its code point, so that
// pages read the same whatever the reader's locale is.
#include <sys/stat.h>

#include <cstdlib>
#include <ctime>
#include <string_view>

#include "base/file.h"
#include "base/number.h"
#include "cli/command_tree.h"
#include "cli/common.h"
#include "cli/program.h"

namespace millrace::cli {

namespace {

struct Edition {
  std::string date;     // 2026-01-31
  std::string version;  // millrace 0.1.0
};

// The code point at `at`, which is moved behind it; the texts are our own, and UTF-8.
uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  uint32_t point = first & (0x3FU >> more);
  for (int i = 0; i < more && at < text.size(); ++i)
    point = point << 6 | (static_cast<unsigned char>(text[at++]) & 0x3FU);
  return point;
}

// Text that roff neither interprets nor beautifies: a command of an example can be copied from the screen.
std::string escaped(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
  for (size_t at = 0; at < text.size();) {
    const uint32_t point = next_code_point(text, at);
    switch (point) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '"':
        out += "\\(dq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        if (point < 0x80)
          out += static_cast<char>(point);
        else
          out += fmt::format("\\[u{:04X}]", point);
    }
  }
  return out;
}

std::string bold(std::string_view text) {
  return "\\fB" + escaped(text) + "\\fR";
}

std::string italic(std::string_view text) {
  return "\\fI" + escaped(text) + "\\fR";
}

// "millrace tar sort" -> millrace-tar-sort
std::string page_name(std::string name) {
  for (char& c : name) {
    if (c == ' ') c = '-';
  }
  return name;
}

// FILE is to be replaced and stands in italics; choices are typed as they are.
std::string placeholder(const Argument& argument) {
  return argument.takes == Takes::kChoice ? bold(argument.placeholder) : italic(argument.placeholder);
}

std::string synopsis(const Command& command) {
  std::string out = ".B " + escaped(command.words) + "\n";
  if (!command.verbs.empty()) return out + italic("VERB") + "\n[" + italic("OPTION") + "]...\n";
  out += "[" + italic("OPTION") + "]...\n";
  for (const Argument& flag : command.flags) {
    if (flag.required) out += bold(flag.names.front()) + " " + placeholder(flag) + "\n";
  }
  for (const Argument& place : command.places) {
    const std::string word = placeholder(place) + (place.repeats ? "..." : "");
    out += place.required ? word + "\n" : "[" + word + "]\n";
  }
  return out;
}

std::string option_entry(const Argument& flag) {
  std::string out = ".TP\n";
  for (const std::string& name : flag.names) out += (&name == &flag.names.front() ? "" : ", ") + bold(name);
  if (flag.takes != Takes::kNothing) out += (flag.names.empty() ? "" : " ") + placeholder(flag);
  out += "\n" + escaped(flag.help) + "\n";
  if (!flag.default_value.empty()) out += "(default: " + bold(flag.default_value) + ")\n";
  if (flag.required && !flag.names.empty()) out += "(required)\n";
  return out;
}

std::string option_section(const std::string& title, const std::vector<Argument>& flags) {
  if (flags.empty()) return "";
  std::string out = ".SH " + title + "\n";
  for (const Argument& flag : flags) out += option_entry(flag);
  return out;
}

std::string description(const Command& command) {
  std::string out = ".SH DESCRIPTION\n" + escaped(command.summary) + ".\n";
  for (const std::string& remark : command.remarks) out += ".PP\n" + escaped(remark) + "\n";
  for (const Argument& place : command.places) out += option_entry(place);
  return out;
}

std::string verb_section(const Command& command) {
  if (command.verbs.empty()) return "";
  std::string out = ".SH VERBS\n";
  for (const Command& verb : command.verbs) {
    out += ".TP\n.BR " + escaped(page_name(verb.words)) + " (1)\n" + escaped(verb.summary) + "\n";
  }
  return out;
}

std::string example_section(const Command& command) {
  if (command.examples.empty()) return "";
  std::string out = ".SH EXAMPLES\n.nf\n";
  for (const std::string& example : command.examples) out += escaped(example) + "\n";
  return out + ".fi\n";
}

std::string page(const Command& command, const Command& program, const Edition& edition) {
  const bool is_program = &command == &program;
  const std::string name = page_name(command.words);
  std::string out = ".\\\" Made by `millrace manual` from the texts of --help.\n";
  out += fmt::format(".TH {} 1 {} \"{}\" \"Millrace\"\n", escaped(name), edition.date, edition.version);
  out += fmt::format(".SH NAME\n{} \\- {}\n", escaped(name), escaped(command.summary));
  out += ".SH SYNOPSIS\n" + synopsis(command) + description(command) + verb_section(command);
  out += option_section("OPTIONS", command.flags);
  if (!is_program) out += option_section("OPTIONS OF EVERY VERB", program.flags);
  out += example_section(command);
  out +=
      ".SH EXIT STATUS\n"
      "0: done. 1: failed; a message on standard error says what, why and what to try. 2: wrong usage.\n";
  if (!is_program) {
    const std::string above = command.words.substr(0, command.words.rfind(' '));
    out += ".SH SEE ALSO\n.BR millrace (1)";
    if (above != program.words) out += ",\n.BR " + escaped(page_name(above)) + " (1)";
    out += "\n";
  }
  return out;
}

// The day that SOURCE_DATE_EPOCH says, which makes packages come out the same again; today without it.
Result<std::string> page_date() {
  std::time_t time = std::time(nullptr);
  if (const char* given = std::getenv("SOURCE_DATE_EPOCH")) {
    const auto seconds = parse_number<int64_t>(given);
    if (!seconds) return make_error(Code::kInvalid, "SOURCE_DATE_EPOCH={} is not a time in seconds", given);
    time = *seconds;
  }
  std::tm day{};
  if (::gmtime_r(&time, &day) == nullptr)
    return make_error(Code::kInvalid, "no calendar has the time {}", time);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

Status write_pages(Shell& shell, const std::string& directory) {
  Shell unused;
  const Command programs[] = {describe(*make_program(Program::kMillrace, unused)),
                              describe(*make_program(Program::kTarshards, unused))};
  const Edition edition = {MR_TRY(page_date()), fmt::format("millrace {}", program_version())};
  if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST)
    return make_system_error(errno, "making the directory " + directory);
  size_t pages = 0;
  for (const Command& program : programs) {
    for (const Command* command : with_verbs(program)) {
      const std::string path = fmt::format("{}/{}.1", directory, page_name(command->words));
      MR_TRY(write_file_atomically(path, page(*command, program, edition)));
      ++pages;
    }
  }
  if (shell.json) Shell::print({{"directory", directory}, {"pages", pages}});
  if (!shell.json) shell.say(fmt::format("wrote {} manual pages to {}", pages, directory));
  return {};
}

}  // namespace

void add_manual(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("manual", "Write the manual pages, one per verb");
  verb->fallthrough();
  auto directory = std::make_shared<std::string>();
  verb->add_option("directory", *directory, "Where to; made if it is not there")
      ->required()
      ->type_name("DIR");
  verb->footer(
      "An installed millrace brings its pages along: man millrace, man millrace-tar-sort. SOURCE_DATE_EPOCH "
      "sets\n"
      "the date of the pages.\n\n"
      "Examples:\n"
      "  millrace manual pages && man pages/millrace-tar-sort.1\n"
      "  millrace manual ~/.local/share/man/man1 && man millrace");
  verb->callback(
      [&shell, directory] { shell.action = [&shell, directory] { return write_pages(shell, *directory); }; });
}

}  // namespace millrace::cli
