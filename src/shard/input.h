// ShardInput: an archive on disk, in a store, on standard input or from a command, ready to be read as
// samples or members.
//
// Recognises compression by content and undoes it, counts the stored bytes that pass, and seeks over data
// nobody wants where the file allows it. Owns the file and the window; not movable, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/progress.h"
#include "base/result.h"
#include "net/ranged.h"
#include "shard/command.h"
#include "tar/compress.h"
#include "tar/sample.h"
#include "tar/window.h"
#include "transfer/stores.h"

namespace millrace::shard {

inline constexpr std::string_view kStandardStream = "-";

// A file, or an object of a store, as a source of bytes; the end of what was sniffed at the start comes
// first. Cut connections to a store are mended.
class FileSource final : public tar::ByteSource {
 public:
  // `stores` finds addresses; without it they are an error.
  static Result<std::unique_ptr<FileSource>> open(const std::string& name, transfer::Stores* stores,
                                                  const std::string& etag = {});

  Result<size_t> read_some(std::span<std::byte> into) override;
  Result<uint64_t> skip(uint64_t bytes) override;

  // Looks at the first bytes without taking them. Only before the first read.
  Result<std::string_view> peek(size_t bytes);
  void watch(Progress& progress) { progress_ = &progress; }
  // Every stored byte passes here too, and none is skipped.
  void tap(std::function<void(std::string_view)> tap) { tap_ = std::move(tap); }
  const std::string& name() const { return name_; }
  // Of a store's answer; null where the bytes come from elsewhere.
  const std::vector<net::HeaderField>* headers() const { return object_ ? &object_->headers() : nullptr; }
  // A file that can be read at any place.
  bool is_seekable() const { return seekable_; }

 private:
  explicit FileSource(std::string name) : name_(std::move(name)) {}
  Status open_file();
  Result<size_t> read_stored(std::span<std::byte> into);
  size_t count(std::span<std::byte> bytes);

  std::string name_;
  File file_;
  std::unique_ptr<net::RangedReader> object_;  // instead of the file
  std::optional<Command> command_;             // instead of the file
  std::string peeked_;
  size_t peeked_used_ = 0;
  bool seekable_ = false;
  bool ended_ = false;  // the command
  Progress* progress_ = nullptr;
  std::function<void(std::string_view)> tap_;
};

// Takes what is left, so that every stored byte has passed.
Status skip_rest(FileSource& source);

struct InputOptions {
  tar::ReadOptions read;
  uint64_t max_sample = tar::StreamWindow::kDefaultMostBytes;
  Progress* progress = nullptr;
  transfer::Stores* stores = nullptr;  // for addresses
  std::string etag;                    // only this version of an object will do; empty: any
  // Told the headers with which a store answers for this name; may be empty.
  std::function<void(const std::string& name, const std::vector<net::HeaderField>&)> heard;
};

class ShardInput {
 public:
  // "-" is standard input.
  static Result<std::unique_ptr<ShardInput>> open(const std::string& name, const InputOptions& options);

  tar::Compression compression() const { return compression_; }
  FileSource& stored() { return *stored_; }
  tar::ByteSource& plain() { return plain_ ? *plain_ : *stored_; }
  tar::Window& window() { return *window_; }
  tar::SampleReader& samples() { return *samples_; }
  const std::string& name() const { return stored_->name(); }
  // Members rather than samples; use one or the other.
  tar::MemberReader members(tar::Archives archives) { return {*window_, name(), archives}; }

 private:
  ShardInput() = default;

  std::unique_ptr<FileSource> stored_;
  std::unique_ptr<tar::ByteSource> plain_;
  tar::Compression compression_ = tar::Compression::kNone;
  std::unique_ptr<tar::StreamWindow> window_;
  std::unique_ptr<tar::SampleReader> samples_;
};

}  // namespace millrace::shard
