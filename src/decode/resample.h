// Resampling: images of another size, through a triangle filter that widens as the image shrinks.
//
// The result equals, sample for sample, PIL's Image.resize(size, BILINEAR, box) of version 9.4: weights in
// fixed point with 22 bits, first along the rows, rounded to 8 bits, then along the columns. Alpha is a
// channel like the others (PIL multiplies it in first; Transform does not ask for that).
//
// Two implementations, AVX2 and plain, chosen when the program starts; both give the same bytes.
#pragma once

#include <cstdint>

#include "decode/pixels.h"
#include "decode/resample_weights.h"

namespace millrace::decode {

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// Which part of which result is wanted of which image.
struct Resampling {
  Size in;      // the whole image
  Box box;      // the part of it that becomes the whole result; inside the image, not empty
  Size out;     // the whole result
  Rect window;  // the part of the result that is wanted

  // The pixels of the image that the window depends on.
  Rect needed() const;
};

enum class Instructions : uint8_t { kPlain, kAvx2 };  // kAvx2: with FMA and F16C
Instructions best_instructions();

// The state of one resampling; its memory serves the next one. One thread.
class ResampleScratch {
 public:
  explicit ResampleScratch(Instructions instructions = best_instructions()) : instructions_(instructions) {}

  Instructions instructions() const { return instructions_; }

  // The first pass. `in` holds the pixels `held` of the image, which contain `needed()`; it must stay until
  // the last row was taken.
  void start(const Resampling& resampling, const PixelsView& in, Rect held);
  // Row `y` of the window; lives until the next call.
  const uint8_t* row(uint32_t y);

 private:
  Instructions instructions_;
  Weights across_;
  Weights down_;
  bool down_is_identity_ = false;
  Pixels middle_;          // after the first pass
  Pixels line_;            // one row after the second
  PixelsView source_;      // of the second pass
  uint32_t source_y_ = 0;  // where in the image its first row lies
  Rect window_;
};

// The whole of `box`, at `out_size`.
void resample(const PixelsView& in, Box box, Size out_size, ResampleScratch& scratch, Pixels& out);

}  // namespace millrace::decode
