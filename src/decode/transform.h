// Transform: what happens between the encoded bytes of an image and its slot in a batch.
//
//   encoded ─► where to crop ─► decode only that ─► resample ─► flip, type, layout ─► slot
//
// Crops are those of torchvision on PIL images: RandomResizedCrop, RandomCrop without padding, CenterCrop,
// after Resize of the shorter side where `resize` says so; antialiased bilinear. Given the same crop and flip
// the result equals torchvision's (0.14 on PIL 9.4) in every bit: uint8 samples, float32 as ToTensor and
// Normalize compute it, float16 as that rounded to the nearest. The exception is RGBA that is resized: alpha
// is not multiplied in first.
//
// Randomness comes from `random_key` alone: the same key, spec and image size give the same crop and flip on
// every machine. A Transform is immutable and may be shared by threads; a Workspace belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/image.h"
#include "decode/pixels.h"
#include "decode/resample.h"
#include "decode/scaling.h"

namespace millrace::decode {

struct TransformSpec {
  enum class Crop : uint8_t { kNone, kCenter, kRandom, kRandomResized };
  enum class Type : uint8_t { kUint8, kFloat32, kFloat16 };
  enum class Layout : uint8_t { kHwc, kChw };

  Channels channels = Channels::kRgb;
  Crop crop = Crop::kNone;
  uint32_t resize = 0;  // the shorter side becomes this, before the crop; 0: not
  Size size;            // of the result; {0,0} (only with kNone): as decoded, results differ in size
  double scale_from = 0.08, scale_to = 1.0;         // kRandomResized: share of the image's area
  double ratio_from = 3.0 / 4, ratio_to = 4.0 / 3;  // kRandomResized: width by height
  bool flip = false;                                // left and right, with probability one half
  Type type = Type::kUint8;
  Layout layout = Layout::kHwc;
  // Floats are scaled to 0..1 first, then (v - mean) / deviation, by channel.
  std::array<float, 4> mean{0, 0, 0, 0};
  std::array<float, 4> deviation{1, 1, 1, 1};
  uint64_t most_pixels = DecodeOptions{}.most_pixels;
  bool operator==(const TransformSpec&) const = default;
};

// What a key means for an image of some size.
struct Placement {
  Rect crop;  // of the image, after `resize` where there is one
  bool flipped = false;
  bool operator==(const Placement&) const = default;
};

// An image whose size is its own.
struct RaggedImage {
  Size size;
  Channels channels = Channels::kRgb;
  std::vector<std::byte> bytes;  // in the spec's type and layout
};

// Memory that every image of one thread uses again.
class Workspace {
 public:
  ImageDecoder decoder;
  Pixels pixels;
  Pixels second;
  ResampleScratch scratch;
};

class Transform {
 public:
  // An impossible spec is an error that names the field.
  static Result<Transform> make(const TransformSpec& spec);

  const TransformSpec& spec() const { return spec_; }
  // Bytes of one result; 0 where each has its own size.
  size_t output_bytes() const;

  // `out` has output_bytes(). Decodes only what the crop needs.
  Status run(std::string_view encoded, uint64_t random_key, Workspace& workspace,
             std::span<std::byte> out) const;
  // The same of pixels that were kept; their channels must be the spec's.
  Status run(const PixelsView& decoded, uint64_t random_key, Workspace& workspace,
             std::span<std::byte> out) const;
  // Where output_bytes() is 0.
  Result<RaggedImage> run_ragged(std::string_view encoded, uint64_t random_key, Workspace& workspace) const;

  // Where the crop falls and whether it is flipped; what run() does with this key.
  Result<Placement> place(Size image, uint64_t random_key) const;

 private:
  struct Plan;
  class Sink;

  Transform() = default;
  Result<Plan> plan(Size image, uint64_t random_key) const;
  Status decode_planned(const Plan& plan, Size image, std::string_view encoded, Workspace& workspace) const;
  void write(const Plan& plan, const PixelsView& held, Rect held_at, Workspace& workspace,
             std::byte* out) const;

  TransformSpec spec_;
  Scaling scaling_;
};

// The whole image, made smaller where its longer side exceeds `max_side` (for a cache of decoded images).
Status decode_bounded(std::string_view encoded, uint32_t max_side, Workspace& workspace, Pixels& into,
                      Channels channels = Channels::kRgb);

}  // namespace millrace::decode
