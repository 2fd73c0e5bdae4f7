// Keys in a file or in a registry, and the wait until nodes know of a change.
#include "cli/key_place.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cluster/map.h"
#include "cluster/open_registry.h"
#include "net/client.h"
#include "node/cluster_keys.h"
#include "node/cluster_part.h"
#include "node/keys.h"

namespace millrace::cli {

namespace {

constexpr auto kPatience = std::chrono::seconds(5);
constexpr int64_t kLookEveryMs = 10;
constexpr uint64_t kMostAnswerBytes = 64 << 10;

bool knows(net::Client& client, const std::string& address, uint64_t revision) {
  net::Request request;
  auto url = net::parse_url(address + "/-/ready");
  if (!url) return false;
  request.url = url.take();
  auto response = client.call(request);
  if (!response) return false;
  const auto body = response->read_all(kMostAnswerBytes);
  if (!body) return false;
  const auto json = nlohmann::json::parse(*body, nullptr, false);
  const auto known = json.is_object() ? json.value("keys_revision", nlohmann::json()) : nlohmann::json();
  return known.is_number_unsigned() && known.get<uint64_t>() >= revision;
}

// Nodes of the map that serve; none where there is no map yet.
Result<std::vector<std::string>> find_nodes(cluster::Registry& registry) {
  std::vector<std::string> addresses;
  const auto entry = MR_TRY(registry.get("map"));
  if (!entry) return addresses;
  const cluster::Map map = MR_TRY(cluster::decode_map(entry->value));
  for (const cluster::MapNode& node : map.nodes()) {
    if (node.is_alive()) addresses.push_back((node.tls ? "https://" : "http://") + node.address);
  }
  return addresses;
}

Result<std::vector<std::string>> wait_for_nodes(cluster::Registry& registry, const std::string& ca_file,
                                                uint64_t revision) {
  net::ClientOptions options;
  options.ca_file = ca_file;
  options.timeouts = {1000, 1000, 1000};
  options.most_attempts = 1;
  options.patience_ms = 0;
  const auto client = MR_TRY(net::Client::make(options));
  const auto until = std::chrono::steady_clock::now() + kPatience;
  std::vector<std::string> waiting = MR_TRY(find_nodes(registry));
  while (true) {
    std::erase_if(waiting, [&](const std::string& address) { return knows(*client, address, revision); });
    if (waiting.empty() || std::chrono::steady_clock::now() >= until) return waiting;
    MR_TRY(client->pause(kLookEveryMs));
  }
}

}  // namespace

Result<KeyPlace> KeyPlace::find(const node::Config& config) {
  KeyPlace place;
  if (!config.registry.empty()) {
    place.text_ = cluster::shown_registry(config.registry);
    place.registry_ = MR_TRY(cluster::open_registry(config.registry, {config.tls_ca}));
    place.ca_file_ = config.tls_ca;
    return place;
  }
  MR_TRY(node::check_alone(config));
  if (::mkdir(config.data.c_str(), 0700) != 0 && errno != EEXIST)
    return make_system_error(errno, "making " + config.data);
  place.text_ = node::key_file_path(config.data);
  return place;
}

Result<gateway::KeyRing> KeyPlace::load() const {
  if (!registry_) return node::load_keys(text_);
  return std::move(MR_TRY(node::load_cluster_keys(*registry_)).ring);
}

Result<KeyPlace::Edited> KeyPlace::edit(const std::function<Status(gateway::KeyRing&)>& change) const {
  if (!registry_) return Edited{MR_TRY(node::edit_keys(text_, change)), {}};
  node::RevisedKeys keys = MR_TRY(node::edit_cluster_keys(*registry_, change));
  return Edited{std::move(keys.ring), MR_TRY(wait_for_nodes(*registry_, ca_file_, keys.revision))};
}

}  // namespace millrace::cli
