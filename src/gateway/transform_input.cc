// Reads stretches of a shard as tars of their own, and looks into results.
#include "gateway/transform_input.h"

#include <algorithm>

#include "base/text.h"
#include "gateway/shards.h"
#include "gateway/unpack.h"
#include "tar/format.h"
#include "tar/reader.h"

namespace millrace::gateway {

namespace {

// Samples from the middle of a tar, and the end of a tar behind them.
class WithEnd final : public tar::ByteSource {
 public:
  explicit WithEnd(tar::ByteSource& source) : source_(source) {}
  Result<size_t> read_some(std::span<std::byte> into) override {
    if (left_ == kEndBytes) {
      const size_t got = MR_TRY(source_.read_some(into));
      if (got > 0) return got;
    }
    const size_t zeros = std::min<size_t>(left_, into.size());
    std::fill_n(into.begin(), zeros, std::byte{0});
    left_ -= zeros;
    return zeros;
  }
  Result<uint64_t> skip(uint64_t bytes) override { return tar::skip_by_reading(*this, bytes); }

  static constexpr uint64_t kEndBytes = 2 * tar::kBlock;

 private:
  tar::ByteSource& source_;
  uint64_t left_ = kEndBytes;
};

class LimitedText final : public tar::ByteSink {
 public:
  Status write(std::string_view bytes) override {
    if (text_.size() + bytes.size() > kMostResultBytes)
      return make_error(Code::kTooLarge, "the result of these samples is larger than {} bytes",
                        kMostResultBytes);
    text_ += bytes;
    return {};
  }
  Status finish() override { return {}; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

Status run_range(Services& services, const PartRun& run, const TarRange& range, tar::ByteSink& out) {
  Unpacker unpacker(services.objects, services.memory.work);
  tar::ByteSource* const source = MR_TRY(unpacker.open(range));
  WithEnd with_end(*source);
  const std::string object = run.object->bucket() + "/" + run.object->key();
  return run.transform.run({object, with_end, range.size + WithEnd::kEndBytes}, out);
}

Status run_all(Services& services, const PartRun& run, tar::ByteSink& out) {
  TarRange range = MR_TRY(whole_tar(services.objects, run.object));
  std::optional<uint64_t> size;
  if (range.compression == tar::Compression::kNone) {
    range.size = run.object->record().size;
    size = range.size;
  }
  Unpacker unpacker(services.objects, services.memory.work);
  tar::ByteSource* const source = MR_TRY(unpacker.open(range));
  const std::string object = run.object->bucket() + "/" + run.object->key();
  return run.transform.run({object, *source, size}, out);
}

}  // namespace

Status run_part(Services& services, const PartRun& run, tar::ByteSink& out) {
  if (run.part.what == TransformPart::What::kWhole) return run_all(services, run, out);
  if (run.part.what == TransformPart::What::kMember) {
    const std::string blocks = MR_TRY(run_to_blocks(services, run));
    const std::string_view bytes = MR_TRY(find_in_blocks(blocks, run.part.member));
    return out.write(bytes);
  }
  const auto [first, last] = run.part.samples;
  const TarRange range = MR_TRY(find_samples(services.indexes, run.object, first, last));
  return run_range(services, run, range, out);
}

Result<std::string> run_to_blocks(Services& services, const PartRun& run) {
  PartRun samples = run;
  if (run.part.what == TransformPart::What::kMember) {
    const uint64_t sample = MR_TRY(find_sample_of(services.indexes, run.object, run.part.member));
    samples.part = {TransformPart::What::kSamples, {sample, sample}, ""};
  }
  LimitedText text;
  MR_TRY(run_part(services, samples, text));
  std::string blocks = text.take();
  tar::MappedWindow window(blocks);
  tar::MemberReader reader(window, run.object->key());
  uint64_t end = 0;
  while (true) {
    const tar::Member* member = MR_TRY(reader.next());
    if (member == nullptr) break;
    end = member->data_offset + tar::padded(member->is_file ? member->size : 0);
  }
  blocks.resize(end);
  return blocks;
}

Result<std::string_view> find_in_blocks(std::string_view blocks, const std::string& member) {
  const std::string whole = std::string(blocks) + std::string(WithEnd::kEndBytes, '\0');
  tar::MappedWindow window(whole);
  tar::MemberReader reader(window, "the result");
  while (true) {
    const tar::Member* found = MR_TRY(reader.next());
    if (found == nullptr) break;
    if (found->is_file && found->name == member) return blocks.substr(found->data_offset, found->size);
  }
  return make_error(kNoSuchMember, "the result has no member {}", printable(member, 256))
      .with_hint("the sample itself, with ?sample=N, shows what it has");
}

}  // namespace millrace::gateway
