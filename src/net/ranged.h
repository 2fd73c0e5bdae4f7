// RangedReader: an object, or a stretch of one, as a stream that survives cut connections.
//
// After a cut it goes on at the byte where it stopped, and only with the same version of the object: the
// entity tag and the length must not have changed. Of an object whose cells lie on several nodes of a
// cluster, each cell is asked for where it lies. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/client.h"

namespace millrace::net {

// Another version than the one that reading began with.
inline constexpr Reason kChangedMeanwhile{Code::kCorrupt, "changed meanwhile"};

// Cuts in a row without a byte in between.
inline constexpr int kMaxResumes = 8;

struct ByteRange {
  uint64_t offset = 0;
  std::optional<uint64_t> size;  // none: to the end
};

struct Wanted {
  ByteRange range;
  std::string etag;                  // only this version will do
  std::vector<HeaderField> headers;  // sent with the first request
};

class RangedReader {
 public:
  // The first answer is waited for.
  static Result<std::unique_ptr<RangedReader>> open(Client& client, Url url, Wanted wanted = {});

  Result<size_t> read_some(std::span<std::byte> into);  // 0 at the end of the range
  // Passes over bytes by asking anew behind them. 0 where reading them is as cheap, or the end is not known.
  Result<uint64_t> skip(uint64_t bytes);

  const std::string& etag() const { return etag_; }  // with its quotes; empty where the server names none
  std::optional<uint64_t> object_size() const { return object_size_; }  // none: chunked
  const std::vector<HeaderField>& headers() const { return headers_; }  // of the first answer
  const std::string* find_header(std::string_view name) const;
  uint64_t position() const { return position_; }

 private:
  RangedReader(Client& client, Url url, ByteRange range, std::string etag)
      : client_(client),
        url_(std::move(url)),
        range_(range),
        etag_(std::move(etag)),
        position_(range.offset) {}
  Status request(std::vector<HeaderField> headers = {});
  Status take_answer(Response response);
  Status take_whole(Response& response);
  Status take_part(Response& response);
  Status mend(Error failure);
  // Where the next request ends, if not at the end of the range; whom to ask goes into the request.
  void aim(Request& request);
  void leave_cell();

  Client& client_;
  const Url url_;
  const ByteRange range_;
  std::string etag_;
  uint64_t position_;
  std::optional<uint64_t> object_size_;
  std::vector<HeaderField> headers_;
  std::optional<Response> response_;
  std::optional<uint64_t> cell_end_;  // what comes behind is asked for elsewhere
  bool answered_ = false;
  int resumes_ = 0;
};

}  // namespace millrace::net
