// Neighbours: what a client has learnt of clusters: which nodes there are, where objects lie, who is away.
//
// Any node of a cluster answers every request, so this only decides who is asked first and who instead of
// one that does not answer. Nothing here can make an answer wrong. All of it is bounded. Thread-safe; clients
// of one process may share one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "net/request.h"
#include "net/where.h"

namespace millrace::net {

class Neighbours {
 public:
  static constexpr size_t kMaxOrigins = 64;
  static constexpr size_t kMaxPlaces = 256;  // of one origin
  static constexpr size_t kMaxObjects = 16'384;
  static constexpr uint64_t kAwayUs = 5'000'000;  // so long one that did not answer is asked last

  // The host of this address has these neighbours: host:port each.
  void add(const Url& url, const std::vector<std::string>& places);
  // What an answer to a request for this address said of where the object is; text that makes no sense is
  // passed over.
  void learn(const Url& url, const std::string& text);
  std::shared_ptr<const Where> find(const Url& url) const;

  // Whom to ask for this address, in this order: those that are preferred, its own host, all others; those
  // that are away come last. At least the host of the address.
  std::vector<std::string> order(const Url& url, const std::vector<std::string>& preferred);

  void note_away(const std::string& place);
  void note_answer(const std::string& place);

 private:
  struct Known {
    std::string text;
    std::shared_ptr<const Where> where;
  };
  void add_places(const Url& url, const std::vector<std::string>& places) MR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, std::vector<std::string>> places_ MR_GUARDED_BY(mutex_);  // by the host asked
  std::map<std::string, Known> objects_ MR_GUARDED_BY(mutex_);                    // by host and path
  std::deque<std::string> order_ MR_GUARDED_BY(mutex_);                           // of objects_, oldest first
  std::map<std::string, uint64_t> away_until_us_ MR_GUARDED_BY(mutex_);
  size_t turn_ MR_GUARDED_BY(mutex_) = 0;
};

// The host and port of an address, as headers of a cluster name them.
std::string authority_of(const Url& url);
// The same address at another host and port; `place` is such a text.
Url at_place(Url url, const std::string& place);

}  // namespace millrace::net
