// ClusterUploads: the multipart uploads of a cluster.
//
// An upload is an object without bytes in the hidden bucket `BUCKET/uploads`, its row. A part is an object of
// `BUCKET/parts`. The completed object is a record that names its parts. Nothing is copied.
//
// A completion first *closes* the row, by a conditional write: so of several completions and aborts one wins.
// Then it commits the object, then it removes the row. Parts are removed by HiddenSweep alone, and only after
// their row is gone. So a completion that holds the closed row can rely on its parts. A row that stays
// closed, because whoever closed it died, is taken over after kStaleMs; a completion that took longer than
// kLongestClosingUs before it commits gives up, so it cannot meet the one that took over.
//
// All calls block, on threads that may wait for nodes; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"
#include "cluster/hidden_sweep.h"
#include "store/objects.h"
#include "store/part_choice.h"

namespace millrace::cluster {

class ClusterUploads {
 public:
  static constexpr uint64_t kLongestClosingUs = 20'000'000;
  static constexpr int64_t kStaleMs = 120'000;
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

  Cluster& cluster_;
  HiddenSweep& sweep_;
};

}  // namespace millrace::cluster
