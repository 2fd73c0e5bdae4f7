// The ranks of mpirun doing one verb together: a directory that all of them see, and shares of the work.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "exchange/group.h"
#include "shard/map.h"

namespace millrace::cli {

// Ranks share neither standard input nor standard output.
Status check_together(const std::vector<std::string>& inputs, const std::string& output);

class Together {
 public:
  // All ranks call it. `parent` is a directory of a file system that all of them share.
  static Result<std::unique_ptr<Together>> begin(const std::string& parent, double timeout_s);

  exchange::Group& group() { return *group_; }
  bool is_first() const { return group_->rank() == 0; }
  const std::string& directory() const { return directory_; }
  uint64_t timeout_ms() const { return timeout_ms_; }
  exchange::Patience patience(std::string_view doing) const { return {timeout_ms_, doing}; }

  // This rank's share of work(0) to work(count - 1), by so many threads; then all wait for each other. The
  // first failure of any rank is everyone's.
  Status share(size_t count, unsigned threads, std::string_view doing,
               const std::function<Status(size_t)>& work);
  // The sum of what each rank gives.
  Result<uint64_t> sum(uint64_t own);

 private:
  Together() = default;
  std::unique_ptr<exchange::Group> group_;
  std::optional<shard::PrivateDirectory> made_;  // rank 0's
  std::string directory_;
  uint64_t timeout_ms_ = 0;
};

}  // namespace millrace::cli
