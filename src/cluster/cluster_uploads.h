// ClusterUploads: the multipart uploads of a cluster.
//
// An upload is an object without bytes in the hidden bucket `BUCKET/uploads`, its row. A part is an object of
// `BUCKET/parts`. The completed object is a record that names its parts. Nothing is copied.
//
// A completion first *closes* the row, by a conditional write: so of several completions and aborts one wins.
// Then it commits the object, then it removes the row. Parts are removed by HiddenSweep alone, and only after
// their row is gone. So a completion that holds the closed row can rely on its parts. A row that stays
// closed, because whoever closed it died, is taken over by a node that has seen it so for kStaleUs, by that
// node's own steady clock; a completion that took longer than kLongestClosingUs before it commits gives up.
// One that was suspended after that finds its row gone or changed when it is done, and takes its object back
// if its parts are gone.
//
// All calls block, on threads that may wait for nodes; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "cluster/cluster.h"
#include "cluster/hidden_sweep.h"
#include "store/objects.h"
#include "store/part_choice.h"

namespace millrace::cluster {

class ClusterUploads {
 public:
  static constexpr uint64_t kLongestClosingUs = 20'000'000;
  static constexpr uint64_t kStaleUs = 2 * kLongestClosingUs;
  static constexpr size_t kMostWatched = 10'000;       // closed rows
  static constexpr uint64_t kPatienceUs = 10'000'000;  // with another completion
  static constexpr unsigned kMostTurns = 100;  // each was lost to another request that changed the row

  ClusterUploads(Cluster& cluster, HiddenSweep& sweep) : cluster_(cluster), sweep_(sweep) {}

  Result<std::string> create(store::PutOptions options);
  Result<store::UploadStatus> status(const store::UploadName& name);
  // By number; of several with one number the latest first.
  Result<std::vector<store::PartStatus>> parts(const store::UploadName& name);
  Result<std::vector<store::UploadStatus>> all(const std::string& bucket);
  Result<store::Record> complete(const store::Completion& completion);
  Status abort(const store::UploadName& name);
  Status abort_all(const std::string& bucket);

 private:
  Result<store::Record> get_row(const store::UploadName& name);
  // The row, once nobody else is completing the upload. kNoSuchUpload where it became an object meanwhile.
  Result<store::Record> wait_for_row(const store::UploadName& name);
  Result<std::vector<store::UploadPart>> load_parts(const store::UploadName& name);
  // Nothing: somebody else was faster, look again.
  Result<std::optional<store::Record>> try_to_complete(const store::Completion& completion);
  void reopen(const store::UploadName& name, store::Record row);
  // Whether this node has seen the row closed by the same hand for long.
  bool is_stale(const store::UploadName& name, const store::Record& row);
  // After the object was committed: frees the row. An error if somebody took the row over and the parts went.
  Status free_row(const store::UploadName& name, const store::Record& closed, const store::Record& object);

  struct Closed {
    std::string etag;  // of the row
    uint64_t seen_us = 0;
  };
  Cluster& cluster_;
  HiddenSweep& sweep_;
  Mutex mutex_;
  std::map<std::string, Closed> closed_ MR_GUARDED_BY(mutex_);  // by upload
};

}  // namespace millrace::cluster
