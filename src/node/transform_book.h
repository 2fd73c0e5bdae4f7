// TransformBook: the transforms that are registered, kept in a registry, with a copy in memory.
//
// A cluster keeps them in its registry; a node alone in one of its own, a directory beside its keys. One
// entry each, `transforms/NAME`: docs/formats/registry.md. find() and all(): any thread, never block. The
// rest blocks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/snapshot.h"
#include "cluster/registry.h"
#include "transform/description.h"

namespace millrace::node {

inline constexpr size_t kMostTransforms = 1000;

class TransformBook {
 public:
  explicit TransformBook(cluster::Registry& registry) : registry_(registry) {}

  std::shared_ptr<const transform::Registered> find(const std::string& name) const;
  std::vector<std::shared_ptr<const transform::Registered>> all() const;
  Status refresh();
  // The next version of that name, unless it does the same already.
  Result<std::shared_ptr<const transform::Registered>> add(const std::string& name,
                                                           const transform::Description& description);
  // kNotFound: there is none. The name goes on counting its versions.
  Status remove(const std::string& name);

 private:
  using Table = std::map<std::string, std::shared_ptr<const transform::Registered>>;

  cluster::Registry& registry_;
  Mutex refreshing_;  // an older reading never replaces a newer one
  Snapshot<Table> table_{std::make_shared<const Table>()};
};

}  // namespace millrace::node
