// Opening and sniffing.
#include "shard/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace millrace::shard {

Result<std::unique_ptr<FileSource>> FileSource::open(const std::string& name) {
  File file = MR_TRY(name == kStandardStream ? File::standard_input() : File::open_read(name));
  std::unique_ptr<FileSource> source(new FileSource(std::move(file)));
  source->seekable_ = MR_TRY(source->file_.is_regular());
  if (source->seekable_) {
    ::posix_fadvise(source->file_.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
  } else {
    // A larger pipe means fewer switches between writer and reader; refused is fine too.
    ::fcntl(source->file_.descriptor(), F_SETPIPE_SZ, 1 << 20);
  }
  return source;
}

Result<size_t> FileSource::read_some(std::span<std::byte> into) {
  if (peeked_used_ < peeked_.size()) {
    const size_t take = std::min(into.size(), peeked_.size() - peeked_used_);
    std::memcpy(into.data(), peeked_.data() + peeked_used_, take);
    peeked_used_ += take;
    return count(into.first(take));
  }
  const size_t got = MR_TRY(file_.read_some(into));
  return count(into.first(got));
}

size_t FileSource::count(std::span<std::byte> bytes) {
  if (progress_ != nullptr) progress_->add(bytes.size(), 0);
  if (tap_) tap_({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return bytes.size();
}

Result<uint64_t> FileSource::skip(uint64_t bytes) {
  // Below this a read is as cheap as a seek.
  constexpr uint64_t kWorthSeeking = 32 << 10;
  if (!seekable_ || tap_ || peeked_used_ < peeked_.size() || bytes < kWorthSeeking) {
    return tar::skip_by_reading(*this, bytes);
  }
  const off_t here = ::lseek(file_.descriptor(), 0, SEEK_CUR);
  const uint64_t size = MR_TRY(file_.size());
  const uint64_t left = size > static_cast<uint64_t>(here) ? size - static_cast<uint64_t>(here) : 0;
  const uint64_t pass = std::min(bytes, left);
  if (here < 0 || ::lseek(file_.descriptor(), static_cast<off_t>(pass), SEEK_CUR) < 0) {
    return make_system_error(errno, "seeking in " + name());
  }
  if (progress_ != nullptr) progress_->add(pass, 0);
  return pass;
}

Status skip_rest(FileSource& source) {
  constexpr uint64_t kStep = 1 << 20;
  while (true) {
    const uint64_t skipped = MR_TRY(source.skip(kStep));
    if (skipped < kStep) return {};
  }
}

Result<std::string_view> FileSource::peek(size_t bytes) {
  MR_ASSERT(peeked_.empty());
  std::string start(bytes, 0);
  size_t have = 0;
  while (have < bytes) {
    const auto space = std::as_writable_bytes(std::span(start)).subspan(have);
    const size_t got = MR_TRY(file_.read_some(space));
    have += got;
    if (got == 0) break;
  }
  peeked_ = start.substr(0, have);
  // Back to the start where that is possible, so that all reads are of whole pages.
  if (seekable_ && ::lseek(file_.descriptor(), -static_cast<off_t>(have), SEEK_CUR) >= 0) peeked_used_ = have;
  return std::string_view(peeked_);
}

Result<std::unique_ptr<ShardInput>> ShardInput::open(const std::string& name, const InputOptions& options) {
  std::unique_ptr<ShardInput> input(new ShardInput());
  input->stored_ = MR_TRY(FileSource::open(name));
  if (options.progress != nullptr) input->stored_->watch(*options.progress);
  const std::string_view start = MR_TRY(input->stored_->peek(tar::kMagicBytes));
  if (start.empty()) {
    return make_error(Code::kTruncated, "{} is empty", input->name())
        .with_hint("even an archive without members has 1024 bytes");
  }
  input->compression_ = tar::recognise_compression(start);
  if (input->compression_ != tar::Compression::kNone) {
    input->plain_ = MR_TRY(tar::make_decompressor(input->compression_, *input->stored_, input->name()));
  }
  input->window_ = std::make_unique<tar::StreamWindow>(input->plain(), options.max_sample);
  input->samples_ = std::make_unique<tar::SampleReader>(*input->window_, input->name(), options.read);
  return input;
}

}  // namespace millrace::shard
