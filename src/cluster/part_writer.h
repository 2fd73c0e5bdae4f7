// PartWriter: the bytes of one part on their way.
//
// The part is written like any object. Whether its upload exists is asked at the start, while bytes come, and
// once more when the part is committed: an upload that ended meanwhile does not see the part any more, so the
// part is removed again.
#pragma once

#include <memory>

#include "cluster/cluster.h"
#include "cluster/cluster_writer.h"
#include "store/objects.h"

namespace millrace::cluster {

class PartWriter final : public store::Writer {
 public:
  PartWriter(Cluster& cluster, const store::PartOptions& options);

  std::span<std::byte> space() override { return writer_.space(); }
  Status advance(size_t bytes) override;
  void when_space(std::function<void()> ready) override { writer_.when_space(std::move(ready)); }
  uint64_t bytes() const override { return writer_.bytes(); }
  uint32_t crc32c() const override { return writer_.crc32c(); }
  void finish(store::Finish finish, Done<store::ObjectPointer> done) override;

 private:
  struct Check;
  PartWriter(Cluster& cluster, const store::PartOptions& options, ObjectName part);
  void confirm(store::ObjectPointer part, Done<store::ObjectPointer> done);
  void judge_ended(store::ObjectPointer part, Error ended, Done<store::ObjectPointer> done);

  Cluster& cluster_;
  const store::UploadName name_;
  const ObjectName part_;
  const std::shared_ptr<Check> check_;
  ClusterWriter writer_;
};

}  // namespace millrace::cluster
