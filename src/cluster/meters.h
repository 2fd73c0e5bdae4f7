// Meters: what each operation did, and the Prometheus text of that and of the drives.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/meter.h"
#include "net/server.h"
#include "store/store.h"

namespace millrace::cluster {

class Meters {
 public:
  static constexpr std::array<std::string_view, 29> kOperations = {"get",
                                                                   "head",
                                                                   "put",
                                                                   "delete",
                                                                   "delete_many",
                                                                   "copy",
                                                                   "list",
                                                                   "list_buckets",
                                                                   "create_bucket",
                                                                   "head_bucket",
                                                                   "delete_bucket",
                                                                   "create_upload",
                                                                   "put_part",
                                                                   "copy_part",
                                                                   "list_parts",
                                                                   "list_uploads",
                                                                   "complete_upload",
                                                                   "abort_upload",
                                                                   "get_tags",
                                                                   "put_tags",
                                                                   "delete_tags",
                                                                   "get_index",
                                                                   "get_member",
                                                                   "get_samples",
                                                                   "get_batch",
                                                                   "bucket_config",
                                                                   "administration",
                                                                   "refused",
                                                                   "other"};

  void count(std::string_view operation, uint64_t bytes_in, uint64_t bytes_out, uint64_t microseconds,
             int status);

  std::string prometheus_text(store::Store& store, const net::Server& server) const;

 private:
  struct Operation {
    Meter out;  // durations, bytes sent, server errors
    std::atomic<uint64_t> bytes_in = 0;
    std::atomic<uint64_t> client_errors = 0;
  };
  std::array<Operation, kOperations.size()> operations_;
};

}  // namespace millrace::cluster
