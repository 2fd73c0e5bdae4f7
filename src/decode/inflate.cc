// Inflates through ISA-L, which counts in 32 bits, so input and output are handed over in stretches.
#include "decode/inflate.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <memory>

namespace millrace::decode {

namespace {

constexpr uint64_t kStretch = 1 << 30;
// The first piece of output; it doubles from there.
constexpr uint64_t kFirstPiece = 64 << 10;
constexpr uint64_t kBestRatio = 1032;

class Inflater {
 public:
  Inflater(std::string_view input, uint64_t most)
      : state_(std::make_unique<inflate_state>()), input_(input), left_(input), most_(most) {}

  // One gzip stream, appended to the output.
  Status run() {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
    while (state_->block_state != ISAL_BLOCK_FINISH) {
      const size_t had_input = left_.size();
      const size_t had_output = made_;
      MR_TRY(step());
      if (state_->block_state != ISAL_BLOCK_FINISH && left_.size() == had_input && made_ == had_output) {
        return make_error(Code::kTruncated, "compressed data ends early, after {} bytes of output", made_);
      }
    }
    return {};
  }

  std::string_view left() const { return left_; }
  std::string take() {
    output_.resize(made_);
    return std::move(output_);
  }

 private:
  Status step() {
    if (made_ == output_.size()) MR_TRY(grow());
    const uint64_t room = std::min<uint64_t>(output_.size() - made_, kStretch);
    const uint64_t input = std::min<uint64_t>(left_.size(), kStretch);
    state_->next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(left_.data()));
    state_->avail_in = static_cast<uint32_t>(input);
    state_->next_out = reinterpret_cast<uint8_t*>(output_.data() + made_);
    state_->avail_out = static_cast<uint32_t>(room);
    const int failure = isal_inflate(state_.get());
    // ISA-L gives back bytes that it took in too early, also those of the call before.
    left_ =
        input_.substr(static_cast<size_t>(reinterpret_cast<const char*>(state_->next_in) - input_.data()));
    made_ += room - state_->avail_out;
    if (failure == ISAL_DECOMP_OK || failure == ISAL_END_INPUT || failure == ISAL_OUT_OVERFLOW) return {};
    if (failure == ISAL_INCORRECT_CHECKSUM) {
      return make_error(Code::kCorrupt, "compressed data has another checksum than it says");
    }
    return make_error(Code::kCorrupt, "compressed data is damaged after {} bytes of output (ISA-L: {})",
                      made_, failure);
  }

  Status grow() {
    // One byte more than allowed, so that exactly `most` is told from more.
    const uint64_t ceiling =
        std::min(most_ + uint64_t{most_ < UINT64_MAX}, left_.size() * kBestRatio + kFirstPiece + made_);
    if (made_ > most_ || ceiling <= made_) {
      return make_error(Code::kTooLarge, "compressed data becomes more than {} bytes", most_);
    }
    output_.resize(std::min(ceiling, std::max<uint64_t>(kFirstPiece, output_.size() * 2)));
    return {};
  }

  std::unique_ptr<inflate_state> state_;
  std::string_view input_;
  std::string_view left_;  // its end
  uint64_t most_;
  std::string output_;
  uint64_t made_ = 0;
};

}  // namespace

Result<std::string> gunzip(std::string_view bytes, uint64_t most) {
  if (!bytes.starts_with("\x1f\x8b"))
    return make_error(Code::kCorrupt, "not gzip: the first two bytes say otherwise");
  Inflater inflater(bytes, most);
  while (inflater.left().starts_with("\x1f\x8b")) MR_TRY(inflater.run());
  if (inflater.left().find_first_not_of('\0') != std::string_view::npos) {
    return make_error(Code::kCorrupt, "{} bytes behind the gzip stream are neither gzip nor zeros",
                      inflater.left().size());
  }
  std::string plain = inflater.take();
  if (plain.size() > most)
    return make_error(Code::kTooLarge, "compressed data becomes more than {} bytes", most);
  return plain;
}

}  // namespace millrace::decode
