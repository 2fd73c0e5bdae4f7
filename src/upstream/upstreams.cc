// Opens upstreams as buckets name them.
#include "upstream/upstreams.h"

namespace millrace::upstream {

Result<std::shared_ptr<const Upstream>> Upstreams::find(std::string_view bucket) {
  const auto known = objects_.find_bucket(bucket);
  if (known == nullptr || !known->settings.upstream) return std::shared_ptr<const Upstream>();
  const store::UpstreamSettings& settings = *known->settings.upstream;
  const MutexLock lock(mutex_);
  std::shared_ptr<const Upstream>& place = open_[known->name];
  if (place != nullptr && place->settings == settings) return place;
  auto remote = MR_TRY(Remote::open(settings, options_));
  place = std::make_shared<const Upstream>(settings, std::move(remote));
  return place;
}

Status Upstreams::check(const store::UpstreamSettings& settings) const {
  const auto remote = Remote::open(settings, options_);
  return remote ? Status() : Status(remote.error().copy());
}

}  // namespace millrace::upstream
