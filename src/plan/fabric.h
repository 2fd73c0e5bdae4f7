// Fabric: the switches between two tiers, as one crossing of them sees it.
//
// Groups hang on switches; switches hang on others, in trees. A crossing leads from its sources up to the
// first common switch and down to its sinks. Where samples cross twice (stored, then decoded), what both
// crossings use is shared.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/installation.h"
#include "plan/network.h"

namespace millrace::plan {

struct FabricLink {
  size_t from = 0;
  size_t to = 0;
  std::string group;  // "switch core", "way up from rack1"
  std::string part;
  uint64_t count = 1;
  Rational rate = 0;  // of one; 0: no limit
  Rational work;      // bytes of it that one sample costs
  int order = 0;      // from the sources up and down to the sinks
};

class Fabric {
 public:
  // `plan` outlives this. `work` is what one sample puts on the wire.
  Fabric(const Installation& plan, Rational work) : plan_(plan), work_(std::move(work)) {}

  void add_source(size_t node, const std::string& at) { sources_.push_back({node, at}); }
  void add_sink(size_t node, const std::string& at) { sinks_.push_back({node, at}); }

  // Makes the nodes inside and says which links they need.
  std::vector<FabricLink> connect(Network& network) const;

  // Of what both use, each sample costs both works.
  friend void share_links(Fabric& first, Fabric& second);

 private:
  struct Port {
    size_t node;
    std::string at;
  };
  enum class Way { kThrough, kUp, kDown };
  struct Use {
    std::string name;  // the switch
    Way way;
    auto operator<=>(const Use&) const = default;
  };
  const Switch& find(const std::string& name) const;
  std::vector<std::string> way_to_root(const std::string& name) const;
  std::vector<Use> uses() const;
  Rational total_work(const Use& use) const;
  void describe(FabricLink& link, const Use& use) const;
  // Bytes a second of all interfaces at a switch and below it.
  Rational below(const std::string& name) const;

  const Installation& plan_;
  const Rational work_;
  std::vector<Port> sources_;
  std::vector<Port> sinks_;
  std::map<Use, Rational> also_;  // what the other crossing costs
};

void share_links(Fabric& first, Fabric& second);

}  // namespace millrace::plan
