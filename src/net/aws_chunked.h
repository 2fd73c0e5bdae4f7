// AwsChunkedDecoder: bodies in "aws-chunked" form, as S3 clients stream them, back to plain bytes.
//
// Push: fed with what the socket gave, it hands out stretches of plain bytes as views into it. Verifies chunk
// signatures where there is a signer. Trailers (checksums) are collected. Bounded memory: one header line.
// One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/digest.h"
#include "net/signing.h"

namespace millrace::net {

class AwsChunkedDecoder {
 public:
  // Without a signer chunks are taken as they come (STREAMING-UNSIGNED-PAYLOAD-TRAILER). With one, each must
  // carry its signature. `trailers`: the body ends with trailing headers.
  enum class Trailers { kNone, kExpected };
  AwsChunkedDecoder(std::optional<ChunkSigner> signer, Trailers trailers);

  struct Step {
    size_t used = 0;         // bytes of the input that are dealt with
    std::string_view plain;  // part of the input: decoded bytes; may be empty
  };
  // Call again with the rest of the input until it is used up. Plain bytes of a signed chunk are given out
  // before its signature is judged: what was received is good only when finished() is true at the end.
  // kDenied: a signature is wrong; kCorrupt: the form is.
  Result<Step> decode(std::string_view input);
  bool finished() const;  // the last chunk, its signature and the trailers were seen and good
  const std::vector<HeaderField>& trailers() const { return trailers_; }  // lower-case names

 private:
  enum class State { kChunkLine, kData, kDataEnd, kTrailer, kTrailerEnd, kEnd };
  Result<Step> take_line(std::string_view input);
  Status end_chunk();
  Status take_chunk_line(std::string_view line);
  Status take_trailer_line(std::string_view line);
  std::optional<ChunkSigner> signer_;
  Trailers expect_;
  State state_ = State::kChunkLine;
  std::string line_;
  uint64_t left_ = 0;
  std::string signature_;
  std::optional<Digest> sha256_;
  std::string trailer_text_;
  std::string_view extra_;  // what may still follow the end
  std::vector<HeaderField> trailers_;
};

}  // namespace millrace::net
