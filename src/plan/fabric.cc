// Finds the links that a crossing uses and what a sample costs there.
#include "plan/fabric.h"

#include <algorithm>
#include <set>

#include "base/assert.h"

namespace millrace::plan {

const Switch& Fabric::find(const std::string& name) const {
  const auto found = std::find_if(plan_.switches.begin(), plan_.switches.end(),
                                  [&name](const Switch& one) { return one.name == name; });
  MR_ASSERT(found != plan_.switches.end());
  return *found;
}

std::vector<std::string> Fabric::way_to_root(const std::string& name) const {
  std::vector<std::string> way;
  for (std::string at = name; !at.empty(); at = find(at).uplink_to) way.push_back(at);
  return way;
}

std::vector<Fabric::Use> Fabric::uses() const {
  std::set<Use> uses;
  for (const Port& source : sources_) {
    for (const Port& sink : sinks_) {
      const auto up = way_to_root(source.at), down = way_to_root(sink.at);
      const auto common = std::find_first_of(up.begin(), up.end(), down.begin(), down.end());
      if (common == up.end()) continue;
      for (auto at = up.begin(); at != common; ++at) {
        uses.insert({*at, Way::kThrough});
        uses.insert({*at, Way::kUp});
      }
      uses.insert({*common, Way::kThrough});
      for (auto at = down.begin(); *at != *common; ++at) {
        uses.insert({*at, Way::kThrough});
        uses.insert({*at, Way::kDown});
      }
    }
  }
  return {uses.begin(), uses.end()};
}

Rational Fabric::total_work(const Use& use) const {
  const auto other = also_.find(use);
  return other == also_.end() ? work_ : work_ + other->second;
}

void share_links(Fabric& first, Fabric& second) {
  const auto of_first = first.uses(), of_second = second.uses();
  for (const Fabric::Use& use : of_first) {
    if (std::find(of_second.begin(), of_second.end(), use) == of_second.end()) continue;
    first.also_[use] = second.work_;
    second.also_[use] = first.work_;
  }
}

Rational Fabric::below(const std::string& name) const {
  Rational sum = 0;
  const auto add = [&](const std::string& at, uint64_t machines, const Links& links) {
    const auto way = way_to_root(at);
    if (std::find(way.begin(), way.end(), name) != way.end())
      sum += Rational(machines) * links.count * links.part.rate;
  };
  for (const Store& store : plan_.stores) {
    if (store.at.empty()) add(store.switch_name, store.machines, store.interface);
  }
  for (const Machines& group : plan_.cpus) add(group.switch_name, group.machines, group.interface);
  for (const Machines& group : plan_.gpus) add(group.switch_name, group.machines, group.interface);
  return sum;
}

void Fabric::describe(FabricLink& link, const Use& use) const {
  const Switch& one = find(use.name);
  const int depth = static_cast<int>(way_to_root(use.name).size()) - 1;
  const auto all = uses();
  const bool leads_up = std::find(all.begin(), all.end(), Use{use.name, Way::kUp}) != all.end();
  link.order = use.way == Way::kUp     ? 1 - 2 * depth
               : use.way == Way::kDown ? 2 * depth - 1
               : leads_up              ? -2 * depth
                                       : 2 * depth;
  link.work = total_work(use);
  if (use.way == Way::kThrough) {
    link.group = "switch " + one.name;
    link.part = "switch";
    link.rate = one.rate;
    return;
  }
  link.group = (use.way == Way::kUp ? "way up from " : "way down to ") + one.name;
  if (one.uplink.count > 0) {
    link.part = one.uplink.part.name;
    link.count = one.uplink.count;
    link.rate = one.uplink.part.rate;
  } else if (one.oversubscription > 0) {
    link.part = "uplinks";
    link.rate = below(one.name) / one.oversubscription;
  }
}

std::vector<FabricLink> Fabric::connect(Network& network) const {
  std::vector<FabricLink> links;
  const auto join = [&links](size_t from, size_t to) { links.push_back({from, to, "", "", 1, 0, 0, 0}); };
  if (plan_.switches.empty()) {
    const size_t hub = network.add_node();
    for (const Port& source : sources_) join(source.node, hub);
    for (const Port& sink : sinks_) join(hub, sink.node);
    return links;
  }
  std::map<std::string, std::pair<size_t, size_t>> ports;  // into and out of each switch
  for (const Switch& one : plan_.switches) {
    const size_t in = network.add_node();
    ports[one.name] = {in, network.add_node()};
  }
  for (const Use& use : uses()) {
    FabricLink link;
    if (use.way == Way::kThrough) {
      link.from = ports[use.name].first;
      link.to = ports[use.name].second;
    } else {
      const std::string& above = find(use.name).uplink_to;
      link.from = use.way == Way::kUp ? ports[use.name].second : ports[above].second;
      link.to = use.way == Way::kUp ? ports[above].first : ports[use.name].first;
    }
    describe(link, use);
    links.push_back(std::move(link));
  }
  for (const Port& source : sources_) join(source.node, ports[source.at].first);
  for (const Port& sink : sinks_) join(ports[sink.at].second, sink.node);
  return links;
}

}  // namespace millrace::plan
