// TailEncoder and TailDecoder: the store's coding for messages whose last field is many bytes, which are
// shared and not copied. Values, one thread each.
#pragma once

#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "cluster/message.h"
#include "store/coding.h"

namespace millrace::cluster {

// Writes all but the tail of a message, whose length is the last of what is written.
class TailEncoder : public store::Encoder {
 public:
  void tail(const Bytes& bytes) {
    u32(static_cast<uint32_t>(bytes.size()));
    tail_ = bytes;
  }
  WireMessage take() && { return {std::move(*this).store::Encoder::take(), std::move(tail_)}; }

 private:
  Bytes tail_;
};

class TailDecoder : public store::Decoder {
 public:
  explicit TailDecoder(const Bytes& bytes) : store::Decoder(bytes.view()), bytes_(bytes) {}
  Bytes tail() { return bytes_.part(text()); }

 private:
  const Bytes& bytes_;
};

}  // namespace millrace::cluster
