// Reads a body by ranged requests, and asks again from where a failure stopped it.
#include "net/ranged.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/number.h"
#include "net/neighbours.h"

namespace millrace::net {

namespace {

Error changed(const Url& url) {
  return make_error(kChangedMeanwhile, "{} changed while it was read", url.text())
      .with_hint("read it again from the start");
}

struct ContentRange {
  uint64_t first = 0;
  std::optional<uint64_t> total;
};

// "bytes 5-9/20", or "*" for a total that the server does not know.
std::optional<ContentRange> find_content_range(const std::string* text) {
  if (text == nullptr || !text->starts_with("bytes ")) return std::nullopt;
  ContentRange range;
  std::string_view rest = std::string_view(*text).substr(6);
  const auto first = take_number<uint64_t>(rest);
  const size_t slash = rest.find('/');
  if (!first || slash == std::string_view::npos) return std::nullopt;
  range.first = *first;
  rest.remove_prefix(slash + 1);
  range.total = take_number<uint64_t>(rest);
  return range;
}

}  // namespace

Result<std::unique_ptr<RangedReader>> RangedReader::open(Client& client, Url url, Wanted wanted) {
  std::unique_ptr<RangedReader> reader(
      new RangedReader(client, std::move(url), wanted.range, std::move(wanted.etag)));
  if (wanted.range.size == 0) return reader;
  MR_TRY(reader->request(std::move(wanted.headers)));
  return reader;
}

const std::string* RangedReader::find_header(std::string_view name) const {
  for (const HeaderField& header : headers_) {
    if (header.first == name) return &header.second;
  }
  return nullptr;
}

Status RangedReader::request(std::vector<HeaderField> headers) {
  Request request;
  request.url = url_;
  request.headers = std::move(headers);
  aim(request);
  std::optional<uint64_t> end = cell_end_;
  if (!end && range_.size) end = range_.offset + *range_.size;
  if (position_ > 0 || end) {
    request.headers.emplace_back(
        "range", end ? fmt::format("bytes={}-{}", position_, *end - 1) : fmt::format("bytes={}-", position_));
  }
  // Weak tags may not be used in If-Match; they are compared in the answer.
  if (!etag_.empty() && !etag_.starts_with("W/")) request.headers.emplace_back("if-match", etag_);
  Response response = MR_TRY(client_.send(request));
  if (response.status() == 412 && !etag_.empty()) return changed(url_);
  if (!response.is_success()) return answer_error(request, response);
  return take_answer(std::move(response));
}

void RangedReader::aim(Request& request) {
  cell_end_.reset();
  Neighbours* const neighbours = client_.options().neighbours.get();
  if (neighbours == nullptr || !url_.query.empty()) return;
  const auto where = neighbours->find(url_);
  if (where == nullptr) return;
  request.preferred = where->holders_of(position_);
  const auto border = where->cell_end(position_);
  const std::optional<uint64_t> end = range_.size ? range_.offset + *range_.size : object_size_;
  if (border && (!end || *border < *end)) cell_end_ = border;
}

void RangedReader::leave_cell() {
  response_->finish();
  response_.reset();
  cell_end_.reset();
}

Status RangedReader::take_answer(Response response) {
  const std::string* tag = response.find_header("etag");
  if (!etag_.empty() && tag != nullptr && *tag != etag_) return changed(url_);
  if (!answered_) {
    headers_ = response.headers();
    if (tag != nullptr) etag_ = *tag;
  }
  MR_TRY(response.status() == 206 ? take_part(response) : take_whole(response));
  answered_ = true;
  response_ = std::move(response);
  return {};
}

Status RangedReader::take_part(Response& response) {
  const auto range = find_content_range(response.find_header("content-range"));
  if (!range || range->first != position_)
    return make_error(Code::kCorrupt, "{}: the server sent another range than was asked for", url_.text());
  if (answered_ && object_size_ && range->total && *range->total != *object_size_) return changed(url_);
  if (range->total) object_size_ = range->total;
  return {};
}

// A server that knows no ranges sends everything: what we have, or do not want, is passed over.
Status RangedReader::take_whole(Response& response) {
  if (answered_ && object_size_ && response.length() && *response.length() != *object_size_)
    return changed(url_);
  if (response.length()) object_size_ = response.length();
  std::vector<std::byte> unwanted(std::min<uint64_t>(kReadBytes, position_));
  for (uint64_t left = position_; left > 0;) {
    const size_t got =
        MR_TRY(response.read_some(std::span(unwanted).first(std::min<uint64_t>(unwanted.size(), left))));
    if (got == 0) return make_error(Code::kInvalid, "{} ends before byte {}", url_.text(), range_.offset);
    left -= got;
  }
  return {};
}

Status RangedReader::mend(Error failure) {
  const bool may_pass = failure.code() == Code::kTruncated || failure.code() == Code::kUnavailable;
  if (!may_pass || resumes_ == kMaxResumes) return std::move(failure).within(url_.text());
  MR_TRY(client_.pause(kFirstPauseMs * resumes_));
  ++resumes_;
  return request();
}

Result<uint64_t> RangedReader::skip(uint64_t bytes) {
  constexpr uint64_t kWorthAsking = 4 << 20;
  if (bytes < kWorthAsking || !object_size_) return uint64_t{0};
  const uint64_t end = range_.size ? range_.offset + *range_.size : *object_size_;
  const uint64_t passed = std::min(bytes, end - std::min(end, position_));
  response_.reset();
  position_ += passed;
  return passed;
}

Result<size_t> RangedReader::read_some(std::span<std::byte> into) {
  if (range_.size) {
    const uint64_t left = range_.offset + *range_.size - position_;
    into = into.first(std::min<uint64_t>(into.size(), left));
  }
  if (into.empty()) return size_t{0};
  if (response_ && cell_end_ == position_) leave_cell();
  // A skip or the end of a cell has left no answer to read from.
  if (!response_) {
    if (!answered_ || (object_size_ && position_ >= *object_size_)) return size_t{0};
    MR_TRY(request());
  }
  while (true) {
    if (cell_end_) into = into.first(std::min<uint64_t>(into.size(), *cell_end_ - position_));
    auto got = response_->read_some(into);
    if (got && *got > 0) {
      position_ += *got;
      resumes_ = 0;
      return *got;
    }
    if (got) {
      const bool short_body = range_.size || (object_size_ && position_ < *object_size_);
      if (!short_body) return size_t{0};
      return make_error(Code::kTruncated, "{} ends at byte {}", url_.text(), position_);
    }
    response_.reset();
    MR_TRY(mend(got.take_error()));
  }
}

}  // namespace millrace::net
