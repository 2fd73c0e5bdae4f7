// Reads settings from a TOML file, the environment and flags, and parses each with its option's own parser.
#include "base/settings.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/number.h"
#include "base/text.h"
#include "base/toml_document.h"
#include "base/units.h"

namespace millrace {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

Result<uint64_t> parse_amount(std::string_view text, Settings::Unit unit) {
  if (unit == Settings::Unit::kBytes) return parse_bytes(text);
  if (unit == Settings::Unit::kSeconds) return parse_seconds(text);
  const auto number = parse_number<uint64_t>(text);
  if (!number) return make_error(Code::kInvalid, "\"{}\" is not a whole number", text);
  return *number;
}

std::string print_number(uint64_t value, Settings::Unit unit) {
  if (unit == Settings::Unit::kBytes && value > 0) {
    static constexpr const char* kNames[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t power = 0;
    while (power < 4 && value % 1024 == 0) {
      value /= 1024;
      ++power;
    }
    return power == 0 ? fmt::format("{}", value) : fmt::format("\"{}{}\"", value, kNames[power]);
  }
  if (unit == Settings::Unit::kSeconds) return fmt::format("\"{}s\"", value);
  return fmt::format("{}", value);
}

std::string join_quoted(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const std::string& value : values) out += (out.size() > 1 ? ", " : "") + quoted(value);
  return out + "]";
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t fewest = std::max<size_t>(2, word.size() / 2) + 1;
  for (const std::string& candidate : candidates) {
    std::vector<size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < word.size(); ++i) {
      size_t diagonal = row[0]++;
      for (size_t j = 0; j < candidate.size(); ++j) {
        const size_t change = diagonal + (word[i] == candidate[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
      }
    }
    if (row.back() < fewest) {
      fewest = row.back();
      best = candidate;
    }
  }
  return best;
}

void Settings::add_option(Option option) {
  option.default_text = option.print();
  options_.push_back(std::move(option));
}

void Settings::add(std::string name, std::string& value, std::string help) {
  Option option;
  option.name = std::move(name);
  option.help = std::move(help);
  option.parse = [&value](const std::string& text) -> Status {
    value = text;
    return {};
  };
  option.print = [&value] { return quoted(value); };
  option.words = [&value] { return std::vector<std::string>{value}; };
  add_option(std::move(option));
}

void Settings::add(std::string name, uint64_t& value, Unit unit, std::string help) {
  Option option;
  option.name = std::move(name);
  option.help = std::move(help);
  option.parse = [&value, unit](const std::string& text) -> Status {
    value = MR_TRY(parse_amount(text, unit));
    return {};
  };
  option.print = [&value, unit] { return print_number(value, unit); };
  option.words = [&value] { return std::vector<std::string>{fmt::format("{}", value)}; };
  add_option(std::move(option));
}

void Settings::add(std::string name, bool& value, std::string help) {
  Option option;
  option.name = std::move(name);
  option.help = std::move(help);
  option.parse = [&value](const std::string& text) -> Status {
    const bool on = text == "true" || text == "on";
    if (!on && text != "false" && text != "off")
      return make_error(Code::kInvalid, "\"{}\" is neither true nor false", text);
    value = on;
    return {};
  };
  option.print = [&value] { return std::string(value ? "true" : "false"); };
  option.words = [&value] { return std::vector<std::string>{value ? "true" : "false"}; };
  add_option(std::move(option));
}

void Settings::add(std::string name, std::vector<std::string>& value, std::string help) {
  Option option;
  option.name = std::move(name);
  option.help = std::move(help);
  option.is_list = true;
  option.parse = [&value](const std::string& text) -> Status {
    value = split_words(text);
    return {};
  };
  option.assign = [&value](std::vector<std::string> words) { value = std::move(words); };
  option.print = [&value] { return join_quoted(value); };
  option.words = [&value] { return value; };
  add_option(std::move(option));
}

const Settings::Option* Settings::find(std::string_view name) const {
  for (const Option& option : options_) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

Error Settings::unknown(std::string_view name, std::string_view where) const {
  std::vector<std::string> names;
  for (const Option& option : options_) names.push_back(option.name);
  const std::string near = nearest_word(name, names);
  Error error = make_error(Code::kInvalid, "{}: there is no setting \"{}\"", where, printable(name, 64));
  if (near.empty()) return std::move(error).with_hint("millrace config lists them all");
  return std::move(error).with_hint(fmt::format("did you mean \"{}\"? millrace config lists them all", near));
}

Status Settings::set(std::string_view name, const std::string& text, std::string_view where) {
  const Option* option = find(name);
  if (option == nullptr) return unknown(name, where);
  return option->parse(text).within(fmt::format("{}: {}", where, name));
}

Status Settings::set_list(std::string_view name, std::vector<std::string> words, std::string_view where) {
  const Option* option = find(name);
  if (option == nullptr) return unknown(name, where);
  if (!option->assign) return make_error(Code::kInvalid, "{}: {} is not a list", where, name);
  option->assign(std::move(words));
  return {};
}

Status Settings::load_file(const std::string& path) {
  const TomlDocument document = MR_TRY(read_toml(path));
  for (const auto& [name, at, value] : document.root.fields) {
    const std::string where = document.place(value.at);
    const Option* option = find(name);
    if (option == nullptr) return unknown(name, where);
    if (value.kind == TomlValue::Kind::kList && option->is_list) {
      std::vector<std::string> words;
      for (const TomlValue& item : value.items) {
        if (!item.is_plain())
          return make_error(Code::kInvalid, "{}: {} holds more than plain values", where, name);
        words.push_back(item.text);
      }
      MR_TRY(set_list(name, std::move(words), where));
    } else if (value.is_plain()) {
      MR_TRY(set(name, value.text, where));
    } else {
      return make_error(Code::kInvalid, "{}: {} is not a plain value", where, name);
    }
  }
  return {};
}

Status Settings::load_environment() {
  for (const Option& option : options_) {
    std::string variable = "MILLRACE_";
    for (const char c : option.name) variable += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const char* text = std::getenv(variable.c_str());
    if (text != nullptr) MR_TRY(set(option.name, text, "environment variable " + variable));
  }
  return {};
}

std::string Settings::print() const {
  std::string out;
  for (const Option& option : options_) {
    const std::string value = option.print();
    out += fmt::format("# {}\n", option.help);
    if (value != option.default_text) out += fmt::format("# default: {}\n", option.default_text);
    out += fmt::format("{} = {}\n\n", option.name, value);
  }
  return out;
}

}  // namespace millrace
