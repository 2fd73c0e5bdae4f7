// Implements resampling. The first pass runs over the rows that the window needs; the second makes one row at
// a time, so that its reader finds it in the nearest cache.
#include "decode/resample.h"

#include <cstring>

#include "base/assert.h"
#include "decode/resample_passes.h"

namespace millrace::decode {

namespace {

Axis across_axis(const Resampling& r) {
  return {r.in.width, r.box.x, r.box.width, r.out.width, r.window.x, r.window.width};
}

Axis down_axis(const Resampling& r) {
  return {r.in.height, r.box.y, r.box.height, r.out.height, r.window.y, r.window.height};
}

}  // namespace

Rect Resampling::needed() const {
  const auto [x, width] = across_axis(*this).needed();
  const auto [y, height] = down_axis(*this).needed();
  return {x, y, width, height};
}

Instructions best_instructions() {
#if defined(__x86_64__)
  const bool all =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return all ? Instructions::kAvx2 : Instructions::kPlain;
#else
  return Instructions::kPlain;
#endif
}

void ResampleScratch::start(const Resampling& resampling, const PixelsView& in, Rect held) {
  const Rect needed = resampling.needed();
  MR_ASSERT(held.x <= needed.x && held.y <= needed.y, held.x, held.y, needed.x, needed.y);
  MR_ASSERT(needed.x + needed.width <= held.x + held.width, held.width, needed.width);
  MR_ASSERT(needed.y + needed.height <= held.y + held.height, held.height, needed.height);
  const PixelsView part = in.part({needed.x - held.x, needed.y - held.y, needed.width, needed.height});
  const Axis across = across_axis(resampling);
  const Axis down = down_axis(resampling);
  window_ = resampling.window;
  source_y_ = needed.y;
  source_ = part;
  if (!across.is_identity()) {
    across_.compute(across);
    middle_.resize({window_.width + kSpareColumns, needed.height}, in.channels);
    const auto pass = instructions_ == Instructions::kAvx2 ? pass_across_avx2 : pass_across;
    pass(part, needed.x, across_, middle_);
    source_ = middle_.view().part({0, 0, window_.width, needed.height});
  }
  down_is_identity_ = down.is_identity();
  if (!down_is_identity_) {
    down_.compute(down);
    line_.resize({window_.width, 1}, in.channels);
  }
}

const uint8_t* ResampleScratch::row(uint32_t y) {
  MR_ASSERT(y < window_.height, y, window_.height);
  if (down_is_identity_) return source_.row(y);
  const auto pass = instructions_ == Instructions::kAvx2 ? pass_down_avx2 : pass_down;
  pass(source_.row(down_.first(y) - source_y_), source_.row_bytes, down_, y, line_);
  return line_.row(0);
}

void resample(const PixelsView& in, Box box, Size out_size, ResampleScratch& scratch, Pixels& out) {
  const Resampling resampling{in.size, box, out_size, whole(out_size)};
  scratch.start(resampling, in, whole(in.size));
  out.resize(out_size, in.channels);
  for (uint32_t y = 0; y < out_size.height; ++y) std::memcpy(out.row(y), scratch.row(y), out.row_bytes());
}

}  // namespace millrace::decode
