// StrictObject: a JSON object of which every field is taken by name, and none is left over.
//
// Types must fit exactly. The first thing that is wrong is the error, with the field's name; finish() refuses
// fields that nobody took. Used for descriptions and tables that come from the registry or from a client.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text.h"

namespace millrace::jobs {

using Json = nlohmann::ordered_json;

class StrictObject {
 public:
  // `where` is what the object is, for messages: "the job".
  StrictObject(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) fail("is not a JSON object");
  }

  bool has(const std::string& name) const { return json_.is_object() && json_.contains(name); }

  // As it is where the object does not have it.
  void take(const std::string& name, std::string& into) {
    if (const Json* const found = find(name)) {
      if (found->is_string())
        into = found->get<std::string>();
      else
        wrong(name, "a string");
    }
  }
  void take(const std::string& name, bool& into) {
    if (const Json* const found = find(name)) {
      if (found->is_boolean())
        into = found->get<bool>();
      else
        wrong(name, "true or false");
    }
  }
  template <typename T>
    requires std::same_as<T, uint64_t> || std::same_as<T, uint32_t>
  void take(const std::string& name, T& into) {
    if (const Json* const found = find(name)) {
      if (found->is_number_unsigned() && found->get<uint64_t>() <= std::numeric_limits<T>::max())
        into = found->get<T>();
      else
        wrong(name, "a whole number");
    }
  }
  void take(const std::string& name, int64_t& into) {
    if (const Json* const found = find(name)) {
      if (found->is_number_integer())
        into = found->get<int64_t>();
      else
        wrong(name, "a whole number");
    }
  }
  void take(const std::string& name, std::vector<std::string>& into, size_t most) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    if (!found->is_array() || found->size() > most) return wrong(name, "a list of strings");
    into.clear();
    for (const Json& one : *found) {
      if (!one.is_string()) return wrong(name, "a list of strings");
      into.push_back(one.get<std::string>());
    }
  }
  void take(const std::string& name, std::map<std::string, std::string>& into, size_t most) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    if (!found->is_object() || found->size() > most) return wrong(name, "an object of strings");
    into.clear();
    for (const auto& [key, value] : found->items()) {
      if (!value.is_string()) return wrong(name, "an object of strings");
      into[key] = value.get<std::string>();
    }
  }
  void take(const std::string& name, std::map<std::string, int64_t>& into, size_t most) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    if (!found->is_object() || found->size() > most) return wrong(name, "an object of numbers");
    into.clear();
    for (const auto& [key, value] : found->items()) {
      if (!value.is_number_integer()) return wrong(name, "an object of numbers");
      into[key] = value.get<int64_t>();
    }
  }
  // Null where there is none; what is in it is the caller's to check.
  const Json* find(const std::string& name) {
    taken_.insert(name);
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }

  Status finish() {
    if (json_.is_object()) {
      for (const auto& [name, value] : json_.items()) {
        if (!taken_.contains(name))
          fail(fmt::format("has \"{}\", which is not known here", printable(name, 64)));
      }
    }
    if (problem_.empty()) return {};
    return make_error(Code::kInvalid, "{} {}", where_, problem_);
  }

 private:
  void wrong(const std::string& name, std::string_view wanted) {
    fail(fmt::format("has a \"{}\" that is not {}", name, wanted));
  }
  void fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }

  const Json& json_;
  const std::string where_;
  std::set<std::string> taken_;
  std::string problem_;  // the first
};

// Text that is not JSON, or nested or doubled in a way that nobody meant, is kCorrupt.
inline Result<Json> parse_json(std::string_view text, std::string_view where) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return make_error(Code::kCorrupt, "{} is not JSON", where);
  return json;
}

inline std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace millrace::jobs
