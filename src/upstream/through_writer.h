// ThroughWriter: the bytes of one PUT on their way to the upstream and to the store at once.
//
// The upstream gets the last byte only when all checks of the request have passed: a request that fails or is
// cut leaves nothing there. The store's copy appears when the upstream has acknowledged and names the same
// version; the request is answered then. One that the upstream acknowledged and that cannot be stored is
// acknowledged too, and fetched when it is read. Writes of one key through one node follow each other
// (Writes), so that the later one of the upstream is the later one here.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/workers.h"
#include "store/objects.h"
#include "upstream/fetches.h"
#include "upstream/upstreams.h"

namespace millrace::upstream {

// The writes under way: their ends one at a time for each name, and how all of them are given up. Any thread.
class Writes {
 public:
  // Making one waits for its turn.
  class Turn {
   public:
    Turn(Writes& writes, std::string bucket, std::string key);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Writes& writes_;
    const std::pair<std::string, std::string> name_;
  };
  class Write {
   public:
    virtual ~Write() = default;
    // Its client is gone, or the node stops. One that is complete goes on.
    virtual void give_up() = 0;
  };

  void add(std::weak_ptr<Write> write);
  void give_up();

 private:
  Mutex mutex_;
  ConditionVariable ended_;
  std::vector<std::weak_ptr<Write>> under_way_ MR_GUARDED_BY(mutex_);
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  std::set<std::pair<std::string, std::string>> taken_ MR_GUARDED_BY(mutex_);
};

// All of them outlive the writers.
struct ThroughLinks {
  store::Objects& objects;
  Workers& workers;  // each PUT has one for as long as it takes
  Writes& writes;
  Fetches& fetches;
  Log& log;
};

// kInvalid where the size is not known; kUnsupported for conditions that upstreams do not know.
Result<std::unique_ptr<store::Writer>> open_through_writer(const ThroughLinks& links,
                                                           std::shared_ptr<const Upstream> upstream,
                                                           store::PutOptions options);

}  // namespace millrace::upstream
