// Upstreams: which storage each bucket is in front of, opened once and again when its settings change.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "store/objects.h"
#include "upstream/remote.h"

namespace millrace::upstream {

struct Upstream {
  store::UpstreamSettings settings;
  std::shared_ptr<Remote> remote;
};

// Any thread.
class Upstreams {
 public:
  Upstreams(const store::Objects& objects, RemoteOptions options)
      : objects_(objects), options_(std::move(options)) {}

  // Null: the bucket is in front of nothing, or there is none. An error where its settings name nothing that
  // can be opened.
  Result<std::shared_ptr<const Upstream>> find(std::string_view bucket);
  // Whether such settings can be opened.
  Status check(const store::UpstreamSettings& settings) const;

 private:
  const store::Objects& objects_;
  const RemoteOptions options_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Upstream>, std::less<>> open_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::upstream
