// Transforms as JSON in a registry.
#include "node/transform_book.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace millrace::node {

namespace {

using Json = nlohmann::ordered_json;
using transform::Registered;

const std::string kPrefix = "transforms/";
constexpr int kMostAttempts = 20;

struct Stored {
  uint64_t version = 0;
  std::shared_ptr<const Registered> registered;  // null: removed
};

std::string encode(const Registered& registered) {
  return Json{{"version", registered.version},
              {"description", transform::description_json(registered.description)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Stored> decode(const cluster::Entry& entry) {
  const Json json = Json::parse(entry.value, nullptr, false);
  if (!json.is_object() || !json.value("version", Json()).is_number_unsigned())
    return make_error(Code::kCorrupt, "registry: {} is not a transform", entry.name);
  Stored stored{json.at("version").get<uint64_t>(), nullptr};
  if (json.contains("removed")) return stored;
  if (!json.contains("description"))
    return make_error(Code::kCorrupt, "registry: {} is not a transform", entry.name);
  Registered registered{entry.name.substr(kPrefix.size()), stored.version, {}};
  registered.description =
      MR_TRY(transform::parse_description(json.at("description").dump()).within("registry: " + entry.name));
  stored.registered = std::make_shared<const Registered>(std::move(registered));
  return stored;
}

Error not_there(const std::string& name) {
  return make_error(Code::kNotFound, "there is no transform {}", printable(name, 80))
      .with_hint("millrace transform list");
}

}  // namespace

std::shared_ptr<const Registered> TransformBook::find(const std::string& name) const {
  const auto table = table_.load();
  const auto found = table->find(name);
  return found == table->end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const Registered>> TransformBook::all() const {
  std::vector<std::shared_ptr<const Registered>> all;
  const auto table = table_.load();
  for (const auto& [name, registered] : *table) all.push_back(registered);
  return all;
}

Status TransformBook::refresh() {
  const MutexLock lock(refreshing_);
  auto table = std::make_shared<Table>();
  const std::vector<cluster::Entry> entries = MR_TRY(registry_.list(kPrefix));
  for (const cluster::Entry& entry : entries) {
    // One that a newer version wrote is not known here; the others are.
    auto stored = decode(entry);
    if (stored && stored->registered) table->emplace(stored->registered->name, stored->registered);
  }
  table_.store(std::move(table));
  return {};
}

Result<std::shared_ptr<const Registered>> TransformBook::add(const std::string& name,
                                                             const transform::Description& description) {
  MR_TRY(transform::check_name(name));
  MR_TRY(refresh());
  if (find(name) == nullptr && all().size() >= kMostTransforms)
    return make_error(Code::kTooLarge, "there are {} transforms: remove some first", kMostTransforms);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const auto entry = MR_TRY(registry_.get(kPrefix + name));
    Registered registered{name, 1, description};
    if (entry) {
      const Stored stored = MR_TRY(decode(*entry));
      registered.version = stored.version;
      if (stored.registered && encode(*stored.registered) == encode(registered)) return stored.registered;
      ++registered.version;
    }
    const auto revision =
        MR_TRY(registry_.swap(kPrefix + name, entry ? entry->revision : 0, encode(registered)));
    if (!revision) continue;
    MR_TRY(refresh());
    return std::make_shared<const Registered>(std::move(registered));
  }
  return make_error(Code::kUnavailable, "transform {} is being changed by others all the time", name);
}

Status TransformBook::remove(const std::string& name) {
  MR_TRY(transform::check_name(name));
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const auto entry = MR_TRY(registry_.get(kPrefix + name));
    if (!entry) return not_there(name);
    const Stored stored = MR_TRY(decode(*entry));
    if (!stored.registered) return not_there(name);
    const Json gone = {{"version", stored.version}, {"removed", true}};
    const auto revision = MR_TRY(registry_.swap(kPrefix + name, entry->revision, gone.dump()));
    if (revision) return refresh();
  }
  return make_error(Code::kUnavailable, "transform {} is being changed by others all the time", name);
}

}  // namespace millrace::node
