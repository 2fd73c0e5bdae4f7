// Settings: one table of typed options that come from a TOML file, the environment and flags, in that order.
//
// Each option is a variable of its owner with a name and a sentence. Unknown names and impossible values are
// errors that name the place and the nearest valid name. Used while starting, by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace {

class Settings {
 public:
  enum class Unit { kCount, kBytes, kSeconds };

  // The variables outlive the table; what they hold now is the default.
  void add(std::string name, std::string& value, std::string help);
  void add(std::string name, uint64_t& value, Unit unit, std::string help);
  void add(std::string name, bool& value, std::string help);
  void add(std::string name, std::vector<std::string>& value, std::string help);

  Status load_file(const std::string& path);
  // listen from MILLRACE_LISTEN and so on; lists are separated by commas. Other variables are left alone.
  Status load_environment();
  Status set(std::string_view name, const std::string& text, std::string_view where);
  // The same for a list whose words may hold blanks and commas.
  Status set_list(std::string_view name, std::vector<std::string> words, std::string_view where);

  struct Option {
    std::string name;
    std::string help;
    std::function<Status(const std::string&)> parse;
    std::function<void(std::vector<std::string>)> assign;  // of lists: the words as they are
    std::function<std::string()> print;                    // as TOML
    std::function<std::vector<std::string>()> words;       // as plain words
    std::string default_text;
    bool is_list = false;
  };
  const std::vector<Option>& options() const { return options_; }
  // As a TOML file with a sentence and the default above each value.
  std::string print() const;

 private:
  void add_option(Option option);
  const Option* find(std::string_view name) const;
  Error unknown(std::string_view name, std::string_view where) const;
  std::vector<Option> options_;
};

// The candidate with the fewest edits to `word`; empty where none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace millrace
