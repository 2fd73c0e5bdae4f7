// Begins with a directory that rank 0 makes, and shares work by number.
#include "cli/together.h"

#include <algorithm>

#include "base/file.h"
#include "base/number.h"
#include "base/threads.h"
#include "exchange/mpi_group.h"
#include "shard/input.h"

namespace millrace::cli {

Status check_together(const std::vector<std::string>& inputs, const std::string& output) {
  if (std::ranges::find(inputs, shard::kStandardStream) != inputs.end())
    return make_error(Code::kInvalid, "under mpirun shards are files or addresses, not standard input");
  if (output == shard::kStandardStream)
    return make_error(Code::kInvalid,
                      "under mpirun shards are written to files or addresses, not to standard output");
  return {};
}

Result<std::unique_ptr<Together>> Together::begin(const std::string& parent, double timeout_s) {
  std::unique_ptr<Together> all(new Together());
  all->group_ = MR_TRY(exchange::open_mpi_group());
  all->timeout_ms_ = static_cast<uint64_t>(timeout_s * 1000);
  Status made;
  if (all->is_first()) {
    auto directory = shard::PrivateDirectory::make(parent);
    if (directory)
      all->made_.emplace(directory.take());
    else
      made = directory.take_error();
  }
  MR_TRY(vote(*all->group_, made, all->patience("making a directory")));
  const std::string own = all->made_ ? all->made_->path() : "";
  all->directory_ = MR_TRY(gather_all(*all->group_, own, all->patience("making a directory"))).front();
  Status seen;
  if (!file_exists(all->directory_))
    seen = make_error(Code::kNotFound, "{} is not the same directory on all machines", parent)
               .with_hint("name one that they share with --tmpdir");
  MR_TRY(vote(*all->group_, seen, all->patience("looking for the directory")));
  return all;
}

Status Together::share(size_t count, unsigned threads, std::string_view doing,
                       const std::function<Status(size_t)>& work) {
  const size_t ranks = group_->size();
  const size_t rank = group_->rank();
  const size_t own = count / ranks + (rank < count % ranks ? 1 : 0);
  const Status done = run_each(own, threads, [&](size_t number) { return work(number * ranks + rank); });
  return vote(*group_, done, patience(doing));
}

Result<uint64_t> Together::sum(uint64_t own) {
  uint64_t all = 0;
  for (const std::string& said : MR_TRY(gather_all(*group_, std::to_string(own), patience("reporting"))))
    all += parse_number<uint64_t>(said).value_or(0);
  return all;
}

}  // namespace millrace::cli
