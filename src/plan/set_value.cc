// Finds a key of a plan through tables and lists of named tables, and changes its value.
#include "plan/set_value.h"

#include "base/text.h"

namespace millrace::plan {

namespace {

TomlValue* find_named(TomlValue& list, std::string_view name) {
  for (TomlValue& item : list.items) {
    const TomlValue* its_name = item.find("name");
    if (its_name != nullptr && its_name->text == name) return &item;
  }
  return nullptr;
}

}  // namespace

Status set_value(TomlDocument& document, std::string_view key, std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return make_error(Code::kInvalid, "setting {}: {}", printable(key, 64), why)
        .with_hint("such as store.shelf.drives=24, workload.fraction=0.3 or part.nvme.read=5GB/s");
  };
  const size_t last_dot = key.rfind('.');
  if (last_dot == std::string_view::npos) {
    document.root.field(key) = make_toml_value(text);
    return {};
  }
  const std::string_view path = key.substr(0, last_dot);
  const size_t dot = path.find('.');
  TomlValue& first = document.root.field(path.substr(0, dot));
  TomlValue* table = &first;
  if (first.kind == TomlValue::Kind::kList) {
    table = dot == std::string_view::npos ? (first.items.size() == 1 ? &first.items[0] : nullptr)
                                          : find_named(first, path.substr(dot + 1));
    if (table == nullptr) return wrong(fmt::format("there is no {} of that name", path.substr(0, dot)));
  } else if (dot != std::string_view::npos && first.kind == TomlValue::Kind::kTable) {
    table = &first.field(path.substr(dot + 1));
  }
  if (table->kind != TomlValue::Kind::kTable) return wrong("it is not a table");
  table->field(key.substr(last_dot + 1)) = make_toml_value(text);
  return {};
}

}  // namespace millrace::plan
