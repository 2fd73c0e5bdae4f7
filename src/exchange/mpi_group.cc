// Finds and loads the MPI module, and offers its calls as a Group.
#include "exchange/mpi_group.h"

#include <dlfcn.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <unordered_map>

#include "base/assert.h"
#include "base/file.h"
#include "exchange/mpi_calls.h"

namespace millrace::exchange {

namespace {

// Loaded once, never unloaded: MPI does not survive that.
const MillraceMpiCalls* loaded = nullptr;

// The file that this code was mapped from: the binary or the Python module, by its real and absolute path.
// The loader would tell the name that somebody typed, which means nothing in another directory or by PATH.
std::string own_file() {
  const auto own = reinterpret_cast<uintptr_t>(&started_by_mpirun);
  std::ifstream mappings("/proc/self/maps");
  for (std::string line; std::getline(mappings, line);) {
    uintptr_t from = 0;
    uintptr_t to = 0;
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &from, &to, &path_at) < 2)
      continue;
    if (own >= from && own < to) return line.substr(static_cast<size_t>(path_at));
  }
  return {};
}

// Beside the own file, or where it is installed.
std::vector<std::string> candidates() {
  if (const char* chosen = std::getenv("MILLRACE_MPI_MODULE")) return {chosen};
  const std::string directory = directory_of(own_file());
  return {directory + "/" + kMpiModuleFile, directory + "/../lib/millrace/" + kMpiModuleFile};
}

Result<const MillraceMpiCalls*> load() {
  if (loaded != nullptr) return loaded;
  std::string why;
  for (const std::string& path : candidates()) {
    if (!file_exists(path)) {
      why += fmt::format("{}{} is not there", why.empty() ? "" : "; ", path);
      continue;
    }
    // Global, because Open MPI's own components expect to see its symbols.
    void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module == nullptr) {
      why += ::dlerror();
      continue;
    }
    const auto function = reinterpret_cast<MillraceMpiModule>(::dlsym(module, kMpiModuleFunction));
    if (function == nullptr || function()->version != kMpiCallsVersion) {
      why += path + " is of another version";
      continue;
    }
    loaded = function();
    return loaded;
  }
  return make_error(Code::kUnsupported, "started by mpirun, but MPI cannot be loaded: {}", why)
      .with_hint("build with libopenmpi-dev installed, or set MILLRACE_MPI_MODULE");
}

Status status_of(const char* failure) {
  if (failure == nullptr) return {};
  return make_error(Code::kUnavailable, "MPI: {}", failure);
}

class MpiGroup final : public Group {
 public:
  MpiGroup(const MillraceMpiCalls& calls, void* group)
      : calls_(calls), group_(group), rank_(calls.rank(group)), size_(calls.size(group)) {}
  ~MpiGroup() override {
    // With requests under way the communicator must stay.
    if (pending_.empty()) calls_.release(group_);
  }

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }

  Result<Request> send(uint32_t to, Tag tag, std::string_view bytes) override {
    MR_ASSERT(bytes.size() <= kMaxMessage, bytes.size());
    void* request = nullptr;
    MR_TRY(status_of(calls_.send(group_, {to, static_cast<int>(tag)}, bytes.data(), bytes.size(), &request)));
    return add(request);
  }
  Result<Request> receive(uint32_t from, Tag tag, std::span<std::byte> into) override {
    MR_ASSERT(into.size() <= kMaxMessage, into.size());
    void* request = nullptr;
    MR_TRY(
        status_of(calls_.receive(group_, {from, static_cast<int>(tag)}, into.data(), into.size(), &request)));
    return add(request);
  }
  Result<bool> test(Request request) override {
    const auto found = pending_.find(request);
    MR_ASSERT(found != pending_.end(), request);
    int done = 0;
    const char* failure = calls_.test(found->second, &done);
    if (failure != nullptr || done != 0) pending_.erase(found);
    MR_TRY(status_of(failure));
    return done != 0;
  }

  Result<std::unique_ptr<Group>> split(uint32_t colour) override {
    void* part = nullptr;
    MR_TRY(status_of(calls_.split(group_, colour, &part)));
    return std::unique_ptr<Group>(new MpiGroup(calls_, part));
  }
  Result<uint32_t> node() override {
    uint32_t number = 0;
    MR_TRY(status_of(calls_.node(group_, &number)));
    return number;
  }

 private:
  Request add(void* request) {
    pending_[++last_] = request;
    return last_;
  }

  const MillraceMpiCalls& calls_;
  void* const group_;
  const uint32_t rank_;
  const uint32_t size_;
  std::unordered_map<Request, void*> pending_;
  Request last_ = 0;
};

// A world of one, and its only group.
class LonelyGroup final : public Group {
 public:
  LonelyGroup() : group_(world_.group(0)) {}
  uint32_t rank() const override { return 0; }
  uint32_t size() const override { return 1; }
  Result<Request> send(uint32_t to, Tag tag, std::string_view bytes) override {
    return group_->send(to, tag, bytes);
  }
  Result<Request> receive(uint32_t from, Tag tag, std::span<std::byte> into) override {
    return group_->receive(from, tag, into);
  }
  Result<bool> test(Request request) override { return group_->test(request); }
  Result<std::unique_ptr<Group>> split(uint32_t colour) override { return group_->split(colour); }
  Result<uint32_t> node() override { return 0; }

 private:
  ThreadWorld world_{1};
  const std::unique_ptr<Group> group_;
};

}  // namespace

bool started_by_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

Result<std::unique_ptr<Group>> open_mpi_group() {
  const MillraceMpiCalls* calls = MR_TRY(load());
  MR_TRY(status_of(calls->start()));
  void* group = nullptr;
  MR_TRY(status_of(calls->world(&group)));
  return std::unique_ptr<Group>(new MpiGroup(*calls, group));
}

Result<std::unique_ptr<Group>> open_group() {
  if (started_by_mpirun()) return open_mpi_group();
  return std::unique_ptr<Group>(new LonelyGroup);
}

void abort_mpi(int code) {
  if (loaded != nullptr) loaded->abort(code);
}

}  // namespace millrace::exchange
