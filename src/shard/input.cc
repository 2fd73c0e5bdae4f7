// Opens archives and recognises their compression.
#include "shard/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace millrace::shard {

Result<std::unique_ptr<FileSource>> FileSource::open(const std::string& name, transfer::Stores* stores,
                                                     const std::string& etag) {
  std::unique_ptr<FileSource> source(new FileSource(name));
  if (net::is_url(name)) {
    if (stores == nullptr) return make_error(Code::kInvalid, "{}: addresses cannot be read here", name);
    const transfer::Location object = MR_TRY(stores->find(name));
    source->object_ = MR_TRY(net::RangedReader::open(object.store->client(), object.url, {{}, etag, {}}));
    return source;
  }
  if (is_pipe(name)) {
    source->command_.emplace(MR_TRY(start_pipe(name)));
    return source;
  }
  MR_TRY(source->open_file());
  return source;
}

Status FileSource::open_file() {
  file_ = MR_TRY(name_ == kStandardStream ? File::standard_input() : File::open_read(name_));
  name_ = file_.name();
  seekable_ = MR_TRY(file_.is_regular());
  if (seekable_) {
    ::posix_fadvise(file_.descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
  } else {
    // A larger pipe means fewer switches between writer and reader; refused is fine too.
    ::fcntl(file_.descriptor(), F_SETPIPE_SZ, 1 << 20);
  }
  return {};
}

Result<size_t> FileSource::read_stored(std::span<std::byte> into) {
  if (object_) return object_->read_some(into);
  if (!command_) return file_.read_some(into);
  const size_t got = MR_TRY(command_->output().read_some(into));
  // A command that fails has given half a shard at best.
  if (got == 0 && !into.empty() && !ended_) {
    ended_ = true;
    MR_TRY(command_->finish());
  }
  return got;
}

Result<size_t> FileSource::read_some(std::span<std::byte> into) {
  if (peeked_used_ < peeked_.size()) {
    const size_t take = std::min(into.size(), peeked_.size() - peeked_used_);
    std::memcpy(into.data(), peeked_.data() + peeked_used_, take);
    peeked_used_ += take;
    return count(into.first(take));
  }
  const size_t got = MR_TRY(read_stored(into));
  return count(into.first(got));
}

size_t FileSource::count(std::span<std::byte> bytes) {
  if (progress_ != nullptr) progress_->add(bytes.size(), 0);
  if (tap_) tap_({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return bytes.size();
}

Result<uint64_t> FileSource::skip(uint64_t bytes) {
  if (object_ && !tap_ && peeked_used_ == peeked_.size()) {
    const uint64_t passed = MR_TRY(object_->skip(bytes));
    if (passed > 0) {
      if (progress_ != nullptr) progress_->add(passed, 0);
      return passed;
    }
  }
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
    const size_t got = MR_TRY(read_stored(space));
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
  input->stored_ = MR_TRY(FileSource::open(name, options.stores, options.etag));
  if (options.heard && input->stored_->headers() != nullptr) options.heard(name, *input->stored_->headers());
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
