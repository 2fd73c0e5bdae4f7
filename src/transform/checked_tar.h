// CheckedTar: passes on the bytes of a tar that somebody else made, and notices one that is none or was cut.
//
// One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tar/feed.h"
#include "tar/writer.h"

namespace millrace::transform {

class CheckedTar {
 public:
  // `maker` is for messages.
  CheckedTar(std::string maker, tar::ByteSink& out) : reader_(std::move(maker)), out_(out) {}

  // kTransformFailed: these bytes are no part of a tar.
  Status write(std::string_view bytes);
  // kTransformFailed: the tar is not whole. Does not finish the sink.
  Status finish();

 private:
  Status look(tar::FeedReader::Kind until);

  tar::FeedReader reader_;
  tar::ByteSink& out_;
};

}  // namespace millrace::transform
