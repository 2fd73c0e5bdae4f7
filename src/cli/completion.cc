// millrace completion: a script that lets a shell complete verbs, flags, their values and files.
//
// A script is a table, made of the command tree, and the few lines of that shell that read it: the words
// before the cursor lead to a command, and the table says what may follow.
#include <string_view>

#include "cli/command_tree.h"
#include "cli/common.h"
#include "cli/program.h"

namespace millrace::cli {

namespace {

constexpr std::string_view kBashReader = R"(
_millrace() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[0]##*/} expected='' place=1 word i
  local program=$command
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    # bash takes --flag=value and http://host apart.
    if [[ $word == '=' ]]; then continue; fi
    if [[ $word == ':' ]]; then ((++i)); continue; fi
    if [[ -n $expected ]]; then
      expected=''
    elif [[ $word == -* ]]; then
      expected=${_millrace_table["$command $word"]-${_millrace_table["$program $word"]-}}
    elif [[ " ${_millrace_table["$command verbs"]-} " == *" $word "* ]]; then
      command+=" $word"
    else
      ((++place))
    fi
  done
  [[ $current == '=' ]] && current=''
  if [[ -z $expected && $current == -* ]]; then
    expected="${_millrace_table["$command flags"]-} ${_millrace_table["$program flags"]-}"
  elif [[ -z $expected && -n ${_millrace_table["$command verbs"]-} ]]; then
    expected=${_millrace_table["$command verbs"]}
  elif [[ -z $expected ]]; then
    expected=${_millrace_table["$command $place"]-${_millrace_table["$command rest"]-}}
  fi
  COMPREPLY=()
  case $expected in
    @file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    @directory) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    @text) ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$expected" -- "$current" | sort -u) ;;
  esac
}
complete -F _millrace millrace tarshards
)";

constexpr std::string_view kZshReader = R"(
_millrace() {
  local program=${words[1]:t} word expected=''
  local command=$program
  local -a verbs flags
  integer place=1 i
  for ((i = 2; i < CURRENT; ++i)); do
    word=$words[i]
    if [[ -n $expected ]]; then
      expected=''
    elif [[ $word == -*=* ]]; then
      continue
    elif [[ $word == -* ]]; then
      expected=${_millrace_table[$command $word]-${_millrace_table[$program $word]-}}
    elif [[ -n ${_millrace_table[$command $word verb]-} ]]; then
      command+=" $word"
    else
      ((++place))
    fi
  done
  word=${words[CURRENT]}
  if [[ -z $expected && $word == -*=* ]]; then
    expected=${_millrace_table[$command ${word%%=*}]-${_millrace_table[$program ${word%%=*}]-}}
    compset -P '*='
  elif [[ -z $expected && $word == -* ]]; then
    _millrace_flags $program
    [[ $command != $program ]] && _millrace_flags $command
    _describe -o flag flags
    return
  fi
  if [[ -z $expected ]]; then
    _millrace_verbs $command
    if (($#verbs)); then
      _describe verb verbs
      return
    fi
    expected=${_millrace_table[$command $place]-${_millrace_table[$command rest]-}}
  fi
  case $expected in
    @file) _files ;;
    @directory) _files -/ ;;
    @text) ;;
    *) compadd -- ${=expected} ;;
  esac
}
if [[ ${funcstack[1]-} == _millrace ]]; then
  _millrace "$@"
else
  compdef _millrace millrace tarshards
fi
)";

constexpr std::string_view kFishReader = R"(
# Succeeds where the words before the cursor lead to this command.
function __millrace_at
    set -l words (commandline -opc)
    set -l command (string replace -r '.*/' '' -- $words[1])
    set -l passed 0
    for word in $words[2..-1]
        if test $passed = 1
            set passed 0
        else if contains -- $word $__millrace_worded
            set passed 1
        else if contains -- "$command $word" $__millrace_commands
            set command "$command $word"
        end
    end
    test "$command" = "$argv"
end
)";

// In single quotes, as bash and zsh read them.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += R"('\'')";
    else
      out += c;
  }
  return out + "'";
}

std::string in_fish_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

// What the tables of bash and zsh say of an argument.
std::string table_word(const Argument& argument) {
  switch (argument.takes) {
    case Takes::kNothing:
      return "";
    case Takes::kText:
      return "@text";
    case Takes::kFile:
      return "@file";
    case Takes::kDirectory:
      return "@directory";
    case Takes::kChoice:
      return fmt::format("{}", fmt::join(argument.choices, " "));
  }
  return "";
}

using Row = std::pair<std::string, std::string>;

// "millrace tar sort --by" -> what follows this flag; "… 1", "… 2" and "… rest" -> what stands at that place.
std::vector<Row> argument_rows(const Command& command) {
  std::vector<Row> rows;
  for (const Argument& flag : command.flags) {
    if (flag.takes == Takes::kNothing) continue;
    for (const std::string& name : flag.names)
      rows.emplace_back(command.words + " " + name, table_word(flag));
  }
  size_t number = 0;
  for (const Argument& place : command.places) {
    const std::string where = place.repeats ? "rest" : std::to_string(++number);
    rows.emplace_back(command.words + " " + where, table_word(place));
  }
  return rows;
}

std::string bash_script(const std::vector<Command>& programs) {
  std::string out =
      "# bash completion of millrace, made by `millrace completion bash`.\n"
      "declare -gA _millrace_table=(\n";
  const auto add = [&](const std::string& key, const std::string& value) {
    out += fmt::format("  [{}]={}\n", in_quotes(key), in_quotes(value));
  };
  for (const Command& program : programs) {
    for (const Command* command : with_verbs(program)) {
      std::vector<std::string> verbs, flags;
      for (const Command& verb : command->verbs) verbs.push_back(verb.name());
      for (const Argument& flag : command->flags)
        flags.insert(flags.end(), flag.names.begin(), flag.names.end());
      if (!verbs.empty()) add(command->words + " verbs", fmt::format("{}", fmt::join(verbs, " ")));
      add(command->words + " flags", fmt::format("{}", fmt::join(flags, " ")));
      for (const auto& [key, value] : argument_rows(*command)) add(key, value);
    }
  }
  return out + ")\n" + std::string(kBashReader);
}

// One function per kind of list: `case` on the command, then an array of 'word:what it is'.
std::string zsh_lists(const std::vector<Command>& programs) {
  std::string verbs, flags;
  const auto entry = [](const std::string& word, const std::string& help) {
    return "\n      " + in_quotes(word + ":" + help);
  };
  for (const Command& program : programs) {
    for (const Command* command : with_verbs(program)) {
      std::string own_verbs, own_flags;
      for (const Command& verb : command->verbs) own_verbs += entry(verb.name(), verb.summary);
      for (const Argument& flag : command->flags) {
        for (const std::string& name : flag.names) own_flags += entry(name, flag.help);
      }
      if (!own_verbs.empty())
        verbs += fmt::format("    {}) verbs+=({}) ;;\n", in_quotes(command->words), own_verbs);
      flags += fmt::format("    {}) flags+=({}) ;;\n", in_quotes(command->words), own_flags);
    }
  }
  return "_millrace_verbs() {\n  case $1 in\n" + verbs + "  esac\n}\n_millrace_flags() {\n  case $1 in\n" +
         flags + "  esac\n}\n";
}

std::string zsh_script(const std::vector<Command>& programs) {
  std::string out =
      "#compdef millrace tarshards\n"
      "# zsh completion of millrace, made by `millrace completion zsh`.\n"
      "typeset -gA _millrace_table=(\n";
  for (const Command& program : programs) {
    for (const Command* command : with_verbs(program)) {
      for (const auto& [key, value] : argument_rows(*command))
        out += fmt::format("  {} {}\n", in_quotes(key), in_quotes(value));
      for (const Command& verb : command->verbs)
        out += fmt::format("  {} 1\n", in_quotes(verb.words + " verb"));
    }
  }
  return out + ")\n" + zsh_lists(programs) + std::string(kZshReader);
}

std::string fish_words(const Argument& argument) {
  switch (argument.takes) {
    case Takes::kNothing:
      return "";
    case Takes::kText:
      return " -x";
    case Takes::kFile:
      return " -r -F";
    case Takes::kDirectory:
      return " -x -a '(__fish_complete_directories)'";
    case Takes::kChoice:
      return fmt::format(" -x -a {}", in_fish_quotes(fmt::format("{}", fmt::join(argument.choices, " "))));
  }
  return "";
}

std::string fish_flag(const Argument& flag) {
  std::string out;
  for (const std::string& name : flag.names)
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  return out + fish_words(flag) + " -d " + in_fish_quotes(flag.help);
}

std::string fish_command(const Command& command, const std::string& program) {
  // Flags of the program count for all its verbs.
  const std::string here =
      fmt::format("complete -c {} -n {}", program, in_fish_quotes("__millrace_at " + command.words));
  const std::string flags_from = command.words == program ? "complete -c " + program : here;
  std::string out;
  for (const Command& verb : command.verbs)
    out += fmt::format("{} -a {} -d {}\n", here, verb.name(), in_fish_quotes(verb.summary));
  for (const Argument& flag : command.flags) out += flags_from + fish_flag(flag) + "\n";
  for (const Argument& place : command.places) {
    if (place.takes == Takes::kFile) out += here + " -F\n";
    if (place.takes == Takes::kDirectory || place.takes == Takes::kChoice)
      out += here + fish_words(place) + "\n";
  }
  return out;
}

std::string fish_script(const std::vector<Command>& programs) {
  std::string out = "# fish completion of millrace, made by `millrace completion fish`.\n";
  std::string commands, worded, lines;
  for (const Command& program : programs) {
    lines += fmt::format("complete -c {} -f\n", program.words);
    for (const Argument& flag : program.flags) {
      if (flag.takes != Takes::kNothing) worded += fmt::format(" {}", fmt::join(flag.names, " "));
    }
    for (const Command* command : with_verbs(program)) {
      commands += " \\\n    " + in_fish_quotes(command->words);
      lines += fish_command(*command, program.words);
    }
  }
  return out + "set -g __millrace_worded" + worded + "\nset -g __millrace_commands" + commands + "\n" +
         std::string(kFishReader) + lines;
}

Status print_script(const std::string& shell_name) {
  Shell unused;
  const std::vector<Command> programs = {describe(*make_program(Program::kMillrace, unused)),
                                         describe(*make_program(Program::kTarshards, unused))};
  std::string script;
  if (shell_name == "bash") script = bash_script(programs);
  if (shell_name == "zsh") script = zsh_script(programs);
  if (shell_name == "fish") script = fish_script(programs);
  fmt::print("{}", script);
  return {};
}

}  // namespace

void add_completion(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("completion", "Print a script that completes millrace in a shell");
  verb->fallthrough();
  auto name = std::make_shared<std::string>();
  verb->add_option("shell", *name, "For which shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""))
      ->type_name("bash|zsh|fish");
  verb->footer(
      "An installed millrace brings these scripts along; this is for one that is run from where it was "
      "built.\n\n"
      "Examples:\n"
      "  source <(millrace completion bash)\n"
      "  millrace completion zsh > ~/.zfunc/_millrace\n"
      "  millrace completion fish > ~/.config/fish/completions/millrace.fish");
  verb->callback([&shell, name] { shell.action = [name] { return print_script(*name); }; });
}

}  // namespace millrace::cli
