// Transforms: programs on shards, as requests see them: GET ?transform=NAME, also with sample, samples and
// member, and POST ?batch&transform=NAME.
//
// The gateway reads the shard and sends what comes out; how a transform runs is the node's affair, behind the
// interface. A run has a thread of its own until its end, and the client's connection hears of its bytes by a
// ResultFlow (gateway/result_flow.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "gateway/call.h"
#include "store/objects.h"
#include "tar/window.h"
#include "tar/writer.h"

namespace millrace::gateway {

// One version of one transform. Any thread.
class Transform {
 public:
  virtual ~Transform() = default;
  // "v3-0123456789abcdef": of the version and what it does.
  virtual const std::string& tag() const = 0;
  struct Input {
    std::string object;  // "train/shard.tar", for messages
    tar::ByteSource& tar;
    std::optional<uint64_t> size;
  };
  // Blocks. The whole tar goes into `out`, which is not finished. kTransformFailed where it is its fault.
  virtual Status run(const Input& input, tar::ByteSink& out) const = 0;
  // How this version failed with the object in the last seconds: whoever reads on after a cut is told.
  virtual std::optional<Error> find_failure(const std::string& object) const = 0;
  virtual bool keeps_results() const = 0;
};

// A result that is stored until the room is needed.
struct KeptResult {
  std::shared_ptr<const File> file;
  uint64_t size = 0;
};

// A result on its way to being kept. Dropped before commit(): leaves no trace.
class KeptWriter : public tar::ByteSink {
 public:
  // After a write that failed the result is just not kept.
  virtual void commit() = 0;
};

// Any thread.
class Transforms {
 public:
  virtual ~Transforms() = default;
  // kNoSuchTransform. May block: another node may have registered it just now.
  virtual Result<std::shared_ptr<const Transform>> get(const std::string& name) = 0;
  // `cancel` ends the run when the node stops; any thread, perhaps more than once. False: too many runs wait.
  [[nodiscard]] virtual bool submit(std::function<void()> run, std::function<void()> cancel) = 0;
  // `name` says object, its version, the transform's and the part that is asked for. May block.
  virtual std::optional<KeptResult> find_kept(const std::string& name) = 0;
  // Null: there is no room, or somebody else is at it.
  virtual std::unique_ptr<KeptWriter> keep(const std::string& name) = 0;
};

// The transform of the call's query; an error where whoever asks may not use it.
net::Task<Result<std::shared_ptr<const Transform>>> find_transform(Call& call);

net::Task<Status> get_transformed(Call& call);        // GET ?transform
net::Task<Status> get_transformed_batch(Call& call);  // POST bucket?batch&transform

}  // namespace millrace::gateway
