// Implements ImageDescription: tables of option names, and the defaults that follow from them.
#include "decode/image_description.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/number.h"
#include "base/text.h"

namespace millrace::decode {

namespace {

using decode::TransformSpec;

constexpr std::pair<std::string_view, TransformSpec::Crop> kCrops[] = {
    {"none", TransformSpec::Crop::kNone},
    {"center", TransformSpec::Crop::kCenter},
    {"random", TransformSpec::Crop::kRandom},
    {"random_resized", TransformSpec::Crop::kRandomResized}};
constexpr std::pair<std::string_view, TransformSpec::Layout> kLayouts[] = {
    {"HWC", TransformSpec::Layout::kHwc}, {"CHW", TransformSpec::Layout::kChw}};
constexpr std::pair<std::string_view, TransformSpec::Type> kTypes[] = {
    {"uint8", TransformSpec::Type::kUint8},
    {"float32", TransformSpec::Type::kFloat32},
    {"float16", TransformSpec::Type::kFloat16}};
constexpr std::pair<std::string_view, decode::Channels> kChannels[] = {
    {"gray", decode::Channels::kGray}, {"rgb", decode::Channels::kRgb}, {"rgba", decode::Channels::kRgba}};

struct Normalisation {
  std::vector<float> mean;
  std::vector<float> deviation;
};
const std::pair<std::string_view, Normalisation> kNormalisations[] = {
    {"imagenet", {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}},
    {"half", {{0.5F}, {0.5F}}},
    {"none", {{0}, {1}}}};  // from 0 to 1

template <typename Table>
auto choose(std::string_view name, std::string_view value, const Table& table)
    -> Result<typename std::remove_cvref_t<decltype(*std::begin(table))>::second_type> {
  std::string known;
  for (const auto& [word, meaning] : table) {
    if (word == value) return meaning;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", word);
  }
  return make_error(Code::kInvalid, "{} is one of {}, not {}", name, known, printable(value, 40));
}

Result<uint32_t> parse_side(std::string_view name, std::string_view text) {
  constexpr uint32_t kMostSide = 65'535;
  const auto side = parse_number<uint32_t>(text);
  if (!side || *side == 0 || *side > kMostSide)
    return make_error(Code::kInvalid, "{} is a number of pixels from 1 to {}, not {}", name, kMostSide,
                      printable(text, 40));
  return *side;
}

template <typename Values>
Status set_by_channel(Values& into, const std::vector<float>& given, decode::Channels channels) {
  const size_t wanted = decode::count(channels);
  const bool is_of_colours = given.size() == 3 && channels == decode::Channels::kRgba;
  if (given.size() != 1 && given.size() != wanted && !is_of_colours) {
    return make_error(Code::kInvalid, "normalize has {} values for {} channels", given.size(), wanted)
        .with_hint("one for each channel or colour, or one for all");
  }
  // Opacity is from 0 to 1 where values are given for the colours alone.
  for (size_t channel = 0; channel < (is_of_colours ? 3 : wanted); ++channel)
    into[channel] = given.size() == 1 ? given[0] : given[channel];
  return {};
}

template <typename Table, typename Meaning>
std::string_view word_of(const Table& table, Meaning wanted) {
  for (const auto& [word, meaning] : table) {
    if (meaning == wanted) return word;
  }
  MR_ASSERT(false);
  return {};
}

}  // namespace

std::string_view image_word(TransformSpec::Layout layout) {
  return word_of(kLayouts, layout);
}

std::string_view image_word(decode::Channels channels) {
  return word_of(kChannels, channels);
}

Status ImageDescription::set_size(std::string_view value) {
  const size_t cross = std::min(value.find('x'), value.size());
  spec_.size.width = MR_TRY(parse_side("size", value.substr(0, cross)));
  spec_.size.height =
      cross == value.size() ? spec_.size.width : MR_TRY(parse_side("size", value.substr(cross + 1)));
  return {};
}

Status ImageDescription::set(std::string_view name, std::string_view value) {
  if (name == "size") return set_size(value);
  if (name == "flip") {
    if (!value.empty()) return make_error(Code::kInvalid, "flip has no value");
    spec_.flip = true;
  } else if (name == "resize") {
    spec_.resize = MR_TRY(parse_side(name, value));
  } else if (name == "crop") {
    crop_ = MR_TRY(choose(name, value, kCrops));
  } else if (name == "layout") {
    spec_.layout = MR_TRY(choose(name, value, kLayouts));
  } else if (name == "dtype") {
    type_ = MR_TRY(choose(name, value, kTypes));
  } else if (name == "channels") {
    spec_.channels = MR_TRY(choose(name, value, kChannels));
  } else if (name == "normalize") {
    Normalisation known = MR_TRY(choose(name, value, kNormalisations));
    normalize(std::move(known.mean), std::move(known.deviation));
  } else {
    return make_error(Code::kInvalid, "{} is not an option of images", printable(name, 40))
        .with_hint("one of: size, resize, crop, flip, normalize, layout, dtype, channels");
  }
  return {};
}

void ImageDescription::normalize(std::vector<float> mean, std::vector<float> deviation) {
  mean_ = std::move(mean);
  deviation_ = std::move(deviation);
}

void ImageDescription::set_random(std::pair<double, double> scale, std::pair<double, double> ratio) {
  std::tie(spec_.scale_from, spec_.scale_to) = scale;
  std::tie(spec_.ratio_from, spec_.ratio_to) = ratio;
}

Result<TransformSpec> ImageDescription::finish() const {
  TransformSpec spec = spec_;
  const bool has_size = spec.size != decode::Size{};
  spec.crop = crop_.value_or(has_size ? TransformSpec::Crop::kCenter : TransformSpec::Crop::kNone);
  if (spec.crop == TransformSpec::Crop::kCenter && has_size && spec.resize == 0)
    spec.resize = std::min(spec.size.width, spec.size.height);
  const bool is_normalized = !mean_.empty() || !deviation_.empty();
  spec.type = type_.value_or(is_normalized ? TransformSpec::Type::kFloat32 : TransformSpec::Type::kUint8);
  if (is_normalized) {
    MR_TRY(set_by_channel(spec.mean, mean_, spec.channels));
    MR_TRY(set_by_channel(spec.deviation, deviation_, spec.channels));
  }
  return spec;
}

}  // namespace millrace::decode
