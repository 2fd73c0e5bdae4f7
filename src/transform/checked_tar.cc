// Follows the headers; data passes unseen.
#include "transform/checked_tar.h"

#include "transform/run.h"

namespace millrace::transform {

Status CheckedTar::write(std::string_view bytes) {
  reader_.feed(bytes);
  MR_TRY(look(tar::FeedReader::Kind::kNeedBytes));
  return out_.write(bytes);
}

Status CheckedTar::finish() {
  reader_.finish();
  return look(tar::FeedReader::Kind::kEnd);
}

Status CheckedTar::look(tar::FeedReader::Kind until) {
  while (true) {
    auto event = reader_.next();
    if (!event) {
      return make_error(kTransformFailed, "what came out is no whole tar: {}", event.error().message())
          .with_hint("the output of a filter or service is one tar, with its end blocks, and nothing else");
    }
    if (event->kind == until) return {};
  }
}

}  // namespace millrace::transform
