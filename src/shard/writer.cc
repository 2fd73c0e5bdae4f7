// Implements ShardWriter: begins a new shard when one is full.
#include "shard/writer.h"

#include "base/mutex.h"

namespace millrace::shard {

namespace {

uint64_t member_bytes(std::string_view name, uint64_t size) {
  return tar::header_bytes({.name = name, .size = size}) + tar::padded(size);
}

uint64_t bytes_as_written(const tar::Sample& sample) {
  if (sample.copyable) return sample.blocks.size();
  uint64_t bytes = 0;
  for (const tar::Field& field : sample.fields) {
    bytes += field.blocks.empty() ? member_bytes(field.name, field.bytes.size()) : field.blocks.size();
  }
  return bytes;
}

}  // namespace

bool is_full(const ShardLimits& limits, uint64_t samples, uint64_t tar_bytes, uint64_t next_sample_bytes) {
  constexpr uint64_t kEndBlocks = 2 * tar::kBlock;
  return samples > 0 &&
         (samples >= limits.max_samples || tar_bytes + next_sample_bytes + kEndBlocks > limits.max_bytes);
}

ShardWriter::ShardWriter(OutputName name, ShardLimits limits, OutputOptions options, uint64_t first)
    : name_(std::move(name)),
      limits_(limits),
      options_(options),
      first_number_(first),
      next_number_(first),
      finisher_([this] { finish_shards(); }) {}

ShardWriter::~ShardWriter() {
  full_.close();
  if (finisher_.joinable()) finisher_.join();
}

void ShardWriter::finish_shards() {
  while (auto shard = full_.pop()) {
    auto summary = (*shard)->finish();
    const MutexLock lock(mutex_);
    if (summary) {
      summaries_.push_back(summary.take());
    } else if (!failure_) {
      failure_ = summary.take_error();
    }
  }
}

Result<ShardFile*> ShardWriter::shard_for(uint64_t sample_bytes) {
  const bool full = current_ && name_.numbered() &&
                    is_full(limits_, current_->samples(), current_->tar_bytes(), sample_bytes);
  if (full) MR_TRY(close_current());
  if (!current_) current_ = MR_TRY(ShardFile::create(name_.at(next_number_++), options_));
  return current_.get();
}

Status ShardWriter::close_current() {
  {
    const MutexLock lock(mutex_);
    if (failure_) return failure_->copy();
  }
  const bool taken = full_.push(std::move(current_));
  MR_ASSERT(taken);
  return {};
}

Status ShardWriter::add(const tar::Sample& sample) {
  ShardFile* shard = MR_TRY(shard_for(bytes_as_written(sample)));
  return shard->add(sample);
}

Status ShardWriter::add(std::string_view key, std::span<const NewField> fields) {
  uint64_t bytes = 0;
  for (const NewField& field : fields)
    bytes += member_bytes(fmt::format("{}.{}", key, field.field), field.bytes.size());
  ShardFile* shard = MR_TRY(shard_for(bytes));
  return shard->add(key, fields);
}

Status ShardWriter::add_loose(std::string_view blocks) {
  ShardFile* shard = MR_TRY(shard_for(blocks.size()));
  return shard->add_loose(blocks);
}

Result<std::vector<ShardSummary>> ShardWriter::finish() {
  if (next_number_ == first_number_) MR_TRY(shard_for(0));
  if (current_) MR_TRY(close_current());
  full_.close();
  finisher_.join();
  const MutexLock lock(mutex_);
  if (failure_) return failure_->copy();
  return std::move(summaries_);
}

}  // namespace millrace::shard
