// Implements Transform. A plan is made from the image's size alone; then the region that it needs is decoded,
// and each row of the result is resampled, flipped, converted and laid out while it is in the nearest cache.
#include "decode/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/assert.h"
#include "base/random.h"
#include "decode/crop.h"
#include "decode/planar.h"

namespace millrace::decode {

namespace {

using Crop = TransformSpec::Crop;
using Type = TransformSpec::Type;
using Layout = TransformSpec::Layout;

// No side of a result is longer; libjpeg has the same limit for images.
constexpr uint32_t kMaxSide = 65'500;

size_t item_bytes(Type type) {
  switch (type) {
    case Type::kUint8:
      return 1;
    case Type::kFloat16:
      return 2;
    case Type::kFloat32:
      return 4;
  }
  return 0;
}

bool is_range(double from, double to) {
  return std::isfinite(from) && std::isfinite(to) && from > 0 && from <= to;
}

Status check_sizes(const TransformSpec& spec) {
  const bool empty = spec.size == Size{};
  if (!empty && (spec.size.width == 0 || spec.size.height == 0)) {
    return make_error(Code::kInvalid, "size {} x {} is empty", spec.size.width, spec.size.height);
  }
  if (empty && spec.crop != Crop::kNone) return make_error(Code::kInvalid, "a crop needs a size");
  if (std::max({spec.size.width, spec.size.height, spec.resize}) > kMaxSide) {
    return make_error(Code::kTooLarge, "size {} x {}, resize {}: no side may exceed {}", spec.size.width,
                      spec.size.height, spec.resize, kMaxSide);
  }
  if (uint64_t{spec.size.width} * spec.size.height > spec.most_pixels) {
    return make_error(Code::kTooLarge, "size {} x {} exceeds the limit of {} pixels", spec.size.width,
                      spec.size.height, spec.most_pixels);
  }
  if (spec.resize > 0 && spec.crop == Crop::kRandomResized) {
    return make_error(Code::kInvalid, "resize before a random resized crop has no use: it resizes itself");
  }
  if (spec.resize > 0 && spec.crop == Crop::kNone && !empty) {
    return make_error(Code::kInvalid, "resize and size without a crop: give one of them");
  }
  return {};
}

Status check_values(const TransformSpec& spec) {
  if (spec.crop == Crop::kRandomResized && !is_range(spec.scale_from, spec.scale_to)) {
    return make_error(Code::kInvalid, "scale {} to {} is no range above 0", spec.scale_from, spec.scale_to);
  }
  if (spec.crop == Crop::kRandomResized && !is_range(spec.ratio_from, spec.ratio_to)) {
    return make_error(Code::kInvalid, "ratio {} to {} is no range above 0", spec.ratio_from, spec.ratio_to);
  }
  const TransformSpec usual;
  if (spec.type == Type::kUint8 && (spec.mean != usual.mean || spec.deviation != usual.deviation)) {
    return make_error(Code::kInvalid, "mean and deviation need a float type");
  }
  for (size_t i = 0; i < spec.mean.size(); ++i) {
    if (!std::isfinite(spec.mean[i]) || !std::isfinite(spec.deviation[i]) || spec.deviation[i] == 0) {
      return make_error(Code::kInvalid, "channel {}: mean {} or deviation {} cannot be used", i, spec.mean[i],
                        spec.deviation[i]);
    }
  }
  return {};
}

Rect moved(Rect rect, uint32_t x, uint32_t y) {
  return {rect.x + x, rect.y + y, rect.width, rect.height};
}

// Distances in the result.
struct Strides {
  ptrdiff_t step;   // from a pixel's value to its right neighbour's
  ptrdiff_t plane;  // from one channel's value to the next one's
};

// One row of `kChannels` samples, through the tables, in either direction.
template <size_t kChannels, typename T, typename Table>
void put_row(const uint8_t* in, uint32_t width, const Table& tables, T* out, Strides strides) {
  for (uint32_t x = 0; x < width; ++x, in += kChannels, out += strides.step) {
    for (size_t channel = 0; channel < kChannels; ++channel) {
      out[static_cast<ptrdiff_t>(channel) * strides.plane] = tables[channel][in[channel]];
    }
  }
}

// Stands for a table where samples stay what they are.
struct Same {
  struct Row {
    uint8_t operator[](uint8_t sample) const { return sample; }
  };
  Row operator[](size_t) const { return {}; }
};

}  // namespace

// What is to be done with an image of some size.
struct Transform::Plan {
  Rect base;              // the part of the image that counts as the whole image for the filter
  Resampling resampling;  // of that part
  Size out;
  uint32_t to_x = 0;  // where the window goes in the result; around it is black
  uint32_t to_y = 0;
  bool flipped = false;

  Rect needed() const { return moved(resampling.needed(), base.x, base.y); }
  bool padded() const { return resampling.window.size() != out; }
};

// Rows of the result, in its type and layout.
class Transform::Sink {
 public:
  Sink(const Transform& transform, const Plan& plan, Instructions instructions, std::byte* out)
      : transform_(transform),
        size_(plan.out),
        flipped_(plan.flipped),
        wide_(instructions == Instructions::kAvx2),
        out_(out) {}

  void put(const uint8_t* row, uint32_t y) const {
    switch (transform_.spec_.type) {
      case Type::kUint8:
        return put_as<uint8_t>(row, y, Same{});
      case Type::kFloat32:
        return put_as<float>(row, y, transform_.scaling_.floats);
      case Type::kFloat16:
        return put_as<uint16_t>(row, y, transform_.scaling_.halves);
    }
  }

 private:
  template <typename T, typename Table>
  void put_as(const uint8_t* row, uint32_t y, const Table& tables) const {
    const Channels channels = transform_.spec_.channels;
    const bool planar = transform_.spec_.layout == Layout::kChw;
    const auto samples = static_cast<ptrdiff_t>(planar ? 1 : count(channels));
    const auto plane = planar ? static_cast<ptrdiff_t>(size_.width) * size_.height : ptrdiff_t{1};
    T* out = reinterpret_cast<T*>(out_) + static_cast<ptrdiff_t>(y) * size_.width * samples;
    if constexpr (std::is_same_v<T, uint8_t>) {
      if (!flipped_ && samples == static_cast<ptrdiff_t>(count(channels))) {
        std::memcpy(out, row, size_.width * count(channels));
        return;
      }
    }
    const uint32_t done = wide_ && planar && channels == Channels::kRgb ? put_wide(row, out, plane) : 0;
    const uint32_t left = size_.width - done;
    row += done * count(channels);
    // The first pixel that is left goes behind those that are done, or before them.
    out += (flipped_ ? static_cast<ptrdiff_t>(left) - 1 : static_cast<ptrdiff_t>(done)) * samples;
    const ptrdiff_t step = flipped_ ? -samples : samples;
    switch (channels) {
      case Channels::kGray:
        return put_row<1>(row, left, tables, out, {step, plane});
      case Channels::kRgb:
        return put_row<3>(row, left, tables, out, {step, plane});
      case Channels::kRgba:
        return put_row<4>(row, left, tables, out, {step, plane});
    }
  }

  template <typename T>
  uint32_t put_wide(const uint8_t* row, T* out, ptrdiff_t plane) const {
    const PlanarRow place{reinterpret_cast<std::byte*>(out), static_cast<size_t>(plane) * sizeof(T),
                          size_.width, flipped_};
    if constexpr (std::is_same_v<T, uint8_t>) return put_planar_bytes_avx2(row, place);
    if constexpr (std::is_same_v<T, float>) return put_planar_floats_avx2(row, place, transform_.scaling_);
    if constexpr (std::is_same_v<T, uint16_t>) return put_planar_halves_avx2(row, place, transform_.scaling_);
  }

  const Transform& transform_;
  Size size_;
  bool flipped_;
  bool wide_;
  std::byte* out_;
};

Result<Transform> Transform::make(const TransformSpec& spec) {
  MR_TRY(check_sizes(spec));
  MR_TRY(check_values(spec));
  Transform transform;
  transform.spec_ = spec;
  transform.scaling_ = Scaling(spec.mean, spec.deviation);
  return transform;
}

size_t Transform::output_bytes() const {
  return size_t{spec_.size.width} * spec_.size.height * count(spec_.channels) * item_bytes(spec_.type);
}

Result<Transform::Plan> Transform::plan(Size image, uint64_t random_key) const {
  DecodeOptions limit;
  limit.most_pixels = spec_.most_pixels;
  if (auto error = find_misfit(image, limit)) return std::move(*error);
  Random random(random_key);
  Plan plan;
  plan.base = whole(image);
  const Size scaled = spec_.resize > 0 ? resized(image, spec_.resize) : image;
  plan.out = spec_.size == Size{} ? scaled : spec_.size;
  Size filtered = scaled;
  Rect window = whole(scaled);
  switch (spec_.crop) {
    case Crop::kNone:
      filtered = plan.out;
      window = whole(filtered);
      break;
    case Crop::kCenter: {
      const CenterCrop center = choose_center(scaled, spec_.size);
      window = center.from;
      plan.to_x = center.to_x;
      plan.to_y = center.to_y;
      break;
    }
    case Crop::kRandom:
      window = MR_TRY(choose_random(scaled, spec_.size, random));
      break;
    case Crop::kRandomResized:
      plan.base = choose_random_resized(
          image, {spec_.scale_from, spec_.scale_to, spec_.ratio_from, spec_.ratio_to}, random);
      filtered = spec_.size;
      window = whole(filtered);
      break;
  }
  if (uint64_t{filtered.width} * filtered.height > spec_.most_pixels) {
    return make_error(Code::kTooLarge, "image of {} x {} would become {} x {}: more than {} pixels",
                      image.width, image.height, filtered.width, filtered.height, spec_.most_pixels);
  }
  const Size base = plan.base.size();
  plan.resampling = {
      base, {0, 0, static_cast<double>(base.width), static_cast<double>(base.height)}, filtered, window};
  plan.flipped = spec_.flip && random.unit() < 0.5;
  return plan;
}

Result<Placement> Transform::place(Size image, uint64_t random_key) const {
  const Plan chosen = MR_TRY(plan(image, random_key));
  const bool of_image = spec_.crop == Crop::kRandomResized || spec_.crop == Crop::kNone;
  return Placement{of_image ? chosen.base : chosen.resampling.window, chosen.flipped};
}

// `held` are the pixels `held_at` of the image, which contain what the plan needs.
void Transform::write(const Plan& plan, const PixelsView& held, Rect held_at, Workspace& workspace,
                      std::byte* out) const {
  const Rect needed = plan.needed();
  const PixelsView part = held.part(moved(needed, 0U - held_at.x, 0U - held_at.y));
  const Sink sink(*this, plan, workspace.scratch.instructions(), out);
  workspace.scratch.start(plan.resampling, part, moved(needed, 0U - plan.base.x, 0U - plan.base.y));
  const Rect& window = plan.resampling.window;
  if (!plan.padded()) {
    for (uint32_t y = 0; y < window.height; ++y) sink.put(workspace.scratch.row(y), y);
    return;
  }
  Pixels& line = workspace.second;
  line.resize({plan.out.width, 1}, spec_.channels);
  std::memset(line.row(0), 0, line.row_bytes());
  for (uint32_t y = 0; y < plan.to_y; ++y) sink.put(line.row(0), y);
  for (uint32_t y = plan.to_y + window.height; y < plan.out.height; ++y) sink.put(line.row(0), y);
  const size_t pixel = count(spec_.channels);
  for (uint32_t y = 0; y < window.height; ++y) {
    std::memcpy(line.row(0) + plan.to_x * pixel, workspace.scratch.row(y), window.width * pixel);
    sink.put(line.row(0), plan.to_y + y);
  }
}

Status Transform::decode_planned(const Plan& plan, Size image, std::string_view encoded,
                                 Workspace& workspace) const {
  DecodeOptions options;
  options.channels = spec_.channels;
  options.most_pixels = spec_.most_pixels;
  if (plan.needed() != whole(image)) options.region = plan.needed();
  return workspace.decoder.decode(encoded, options, workspace.pixels);
}

Status Transform::run(std::string_view encoded, uint64_t random_key, Workspace& workspace,
                      std::span<std::byte> out) const {
  MR_ASSERT(output_bytes() > 0 && out.size() == output_bytes(), out.size(), output_bytes());
  const Size image = MR_TRY(read_size(encoded));
  const Plan chosen = MR_TRY(plan(image, random_key));
  MR_TRY(decode_planned(chosen, image, encoded, workspace));
  write(chosen, workspace.pixels.view(), chosen.needed(), workspace, out.data());
  return {};
}

Status Transform::run(const PixelsView& decoded, uint64_t random_key, Workspace& workspace,
                      std::span<std::byte> out) const {
  MR_ASSERT(output_bytes() > 0 && out.size() == output_bytes(), out.size(), output_bytes());
  MR_ASSERT(decoded.channels == spec_.channels, count(decoded.channels), count(spec_.channels));
  const Plan chosen = MR_TRY(plan(decoded.size, random_key));
  write(chosen, decoded, whole(decoded.size), workspace, out.data());
  return {};
}

Result<RaggedImage> Transform::run_ragged(std::string_view encoded, uint64_t random_key,
                                          Workspace& workspace) const {
  MR_ASSERT(output_bytes() == 0, output_bytes());
  const Size image = MR_TRY(read_size(encoded));
  const Plan chosen = MR_TRY(plan(image, random_key));
  MR_TRY(decode_planned(chosen, image, encoded, workspace));
  RaggedImage result{chosen.out, spec_.channels, {}};
  result.bytes.resize(size_t{chosen.out.width} * chosen.out.height * count(spec_.channels) *
                      item_bytes(spec_.type));
  write(chosen, workspace.pixels.view(), chosen.needed(), workspace, result.bytes.data());
  return result;
}

Status decode_bounded(std::string_view encoded, uint32_t max_side, Workspace& workspace, Pixels& into,
                      Channels channels) {
  if (max_side == 0) return make_error(Code::kInvalid, "max_side is 0");
  DecodeOptions options;
  options.channels = channels;
  options.shrink_to = max_side;
  const Size image = MR_TRY(read_size(encoded));
  MR_TRY(workspace.decoder.decode(encoded, options, workspace.pixels));
  const Size size = workspace.pixels.size();
  // By the image's own sides: those of a shrunken one are rounded already.
  const double scale = std::min(1.0, static_cast<double>(max_side) / std::max(image.width, image.height));
  const auto scaled = [scale](uint32_t side) {
    return std::max(1U, static_cast<uint32_t>(std::nearbyint(side * scale)));
  };
  const Size target{scaled(image.width), scaled(image.height)};
  if (size == target) {
    std::swap(workspace.pixels, into);
    return {};
  }
  const Box box{0, 0, static_cast<double>(size.width), static_cast<double>(size.height)};
  resample(workspace.pixels.view(), box, target, workspace.scratch, into);
  return {};
}

}  // namespace millrace::decode
