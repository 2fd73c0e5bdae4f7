// JPEG through libjpeg-turbo: baseline and progressive, whole, in part, or smaller. Used by image.cc alone.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "decode/image.h"

namespace millrace::decode {

Result<Size> read_jpeg_size(std::string_view bytes);

class JpegDecoder {
 public:
  // A progressive JPEG of more scans than this is refused: each costs a pass over the whole image.
  static constexpr int kMaxScans = 500;

  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  Status decode(std::string_view bytes, const DecodeOptions& options, Pixels& into);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::decode
