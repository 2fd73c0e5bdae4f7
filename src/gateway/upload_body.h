// UploadBody: a request's body on its way into a store::Writer, checked against everything the client says
// about it.
//
// Content-MD5, x-amz-content-sha256, x-amz-checksum-* (in headers or trailers), the decoded length, and chunk
// signatures. Only what passes all of them is committed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/call.h"
#include "net/aws_chunked.h"
#include "net/digest.h"

namespace millrace::gateway {

// MD5 costs more than all else that a PUT does, so it is computed for those who may look at it (etag=auto):
// up to the first size always, for people compare small things by hand; up to the second for S3 clients that
// send no checksum of their own, for some compare the ETag; beyond it, and for plain HTTP, where Content-MD5
// asks for it.
inline constexpr uint64_t kMd5AlwaysBytes = 64 << 10;
inline constexpr uint64_t kMd5Bytes = 16 << 20;

class UploadBody {
 public:
  // Reads the headers; an error where they contradict each other.
  static Result<UploadBody> open(const Call& call, store::EtagMode mode);

  std::optional<uint64_t> size() const { return size_; }  // of the plain bytes, where known

  // Everything into the writer, then all checks. Afterwards etag() and checksums() are known.
  net::Task<Status> receive(Call& call, store::Writer& writer);

  const std::string& etag() const { return etag_; }  // MD5 in hex, or empty
  const std::vector<store::NameValue>& checksums() const { return checksums_; }

 private:
  struct Expected {
    net::Digest digest;
    std::string value;      // raw bytes; empty: comes as a trailer
    std::string header;     // x-amz-checksum-…; empty for Content-MD5 and the signed SHA-256
    const Reason* refusal;  // where it differs
  };
  Status expect_checksums(const Call& call);
  Status check_trailers() const;
  void add_digests(std::string_view bytes, uint64_t total);
  Status check();
  net::Task<Status> receive_plain(Call& call, store::Writer& writer);
  net::Task<Status> receive_chunked(Call& call, store::Writer& writer);

  std::optional<uint64_t> size_;
  std::vector<Expected> expected_;
  std::optional<net::Digest> md5_;  // for the etag
  uint64_t most_md5_ = 0;           // bytes; with more there is none
  std::optional<net::AwsChunkedDecoder> chunks_;
  std::string etag_;
  std::vector<store::NameValue> checksums_;
};

// The x-amz-checksum-… that a request claims, in headers or in the query of its link: names in lower case.
std::vector<store::NameValue> claimed_checksums(const Call& call);

// A body that is a small document, of at most `most` bytes, checked against x-amz-content-sha256, Content-MD5
// and x-amz-checksum-…. kOfObject: the checksums are those of the object that the document is about.
enum class Checksums { kOfDocument, kOfObject };
net::Task<Result<std::string>> read_document(Call& call, size_t most,
                                             Checksums checksums = Checksums::kOfDocument);

// The body into the writer, checked and committed.
net::Task<Result<store::ObjectPointer>> receive_object(Call& call, UploadBody& body, store::Writer& writer);

// Waits until the writer takes bytes again.
net::Task<void> wait_for_space(Call& call, store::Writer& writer);
net::Task<Result<store::ObjectPointer>> finish_writer(Call& call, store::Writer& writer,
                                                      store::Finish finish);

}  // namespace millrace::gateway
