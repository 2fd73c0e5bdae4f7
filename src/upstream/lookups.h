// Lookups: asking the upstream about an object, once for all who ask at the same time.
//
// Any thread; the questions run on the workers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/workers.h"
#include "store/objects.h"
#include "upstream/upstreams.h"

namespace millrace::upstream {

class Lookups {
 public:
  // What the upstream says of an object; shared by those who asked together. Its error is the same for all.
  using Found = Result<std::optional<RemoteHead>>;
  using Done = std::function<void(const Found&)>;

  explicit Lookups(Workers& workers) : workers_(workers) {}

  void ask(std::shared_ptr<const Upstream> upstream, const std::string& bucket, const std::string& key,
           Patience patience, Done done);

  // Whether the object was compared with its upstream in the last so many seconds.
  bool is_fresh(std::string_view bucket, std::string_view key, uint32_t seconds) const;
  void note_fresh(std::string_view bucket, std::string_view key);

 private:
  static constexpr size_t kMostRemembered = 100'000;
  using Name = std::pair<std::string, std::string>;

  Workers& workers_;
  mutable Mutex mutex_;
  std::map<Name, std::vector<Done>> asking_ MR_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> compared_us_ MR_GUARDED_BY(mutex_);  // by the hash of the name
};

}  // namespace millrace::upstream
