// Chooses fields, and makes of images what the description says.
#include "transform/images.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "decode/encode.h"
#include "decode/label.h"
#include "transform/in_order.h"
#include "transform/sample_blocks.h"

namespace millrace::transform {

namespace {

using decode::DType;
using decode::TransformSpec;

DType dtype_of(TransformSpec::Type type) {
  switch (type) {
    case TransformSpec::Type::kUint8:
      return DType::kUint8;
    case TransformSpec::Type::kFloat32:
      return DType::kFloat32;
    case TransformSpec::Type::kFloat16:
      return DType::kFloat16;
  }
  return DType::kUint8;
}

std::vector<uint64_t> shape_of(const TransformSpec& spec, decode::Size size) {
  const uint64_t channels = decode::count(spec.channels);
  if (spec.layout == TransformSpec::Layout::kChw) return {channels, size.height, size.width};
  return {size.height, size.width, channels};
}

std::string_view ending(ImageOutput to) {
  switch (to) {
    case ImageOutput::kNpy:
      return "npy";
    case ImageOutput::kJpeg:
      return "jpg";
    case ImageOutput::kPng:
      return "png";
  }
  return "npy";
}

// "seg.png" becomes "seg.npy", "jpg" becomes "npy".
std::string renamed(std::string_view field, ImageOutput to) {
  const size_t dot = field.rfind('.');
  const std::string_view start =
      dot == std::string_view::npos ? std::string_view() : field.substr(0, dot + 1);
  return fmt::format("{}{}", start, ending(to));
}

struct ChosenField {
  std::string name;
  std::string_view bytes;
};

Result<std::vector<ChosenField>> choose_fields(const tar::Sample& sample,
                                               const std::vector<shard::FieldChoice>& choices) {
  std::vector<ChosenField> chosen;
  if (choices.empty()) {
    for (const tar::Field& field : sample.fields) chosen.push_back({std::string(field.field), field.bytes});
    return chosen;
  }
  for (const shard::FieldChoice& choice : choices) {
    const tar::Field* found = nullptr;
    for (const std::string& name : choice.any_of) {
      if (found == nullptr) found = sample.find(name);
    }
    if (found == nullptr)
      return make_error(Code::kNotFound, "it has no field {}: it has {}", choice.any_of.front(),
                        tar::names_of_fields(sample.fields));
    chosen.push_back({choice.name.empty() ? std::string(found->field) : choice.name, found->bytes});
  }
  return chosen;
}

// Pixels of one image as the description wants them; of its own size where that is not fixed.
struct Picture {
  decode::Size size;
  std::string bytes;

  decode::PixelsView view(decode::Channels channels) const {
    return {reinterpret_cast<const uint8_t*>(bytes.data()), size, channels,
            size.width * decode::count(channels)};
  }
};

// Behind `head`, so that what belongs before the pixels costs no copy of them.
Result<Picture> make_pixels(const decode::Transform& transform, std::string_view encoded,
                            decode::Workspace& workspace, std::string head) {
  if (transform.output_bytes() == 0) {
    decode::RaggedImage ragged = MR_TRY(transform.run_ragged(encoded, 0, workspace));
    head.append(reinterpret_cast<const char*>(ragged.bytes.data()), ragged.bytes.size());
    return Picture{ragged.size, std::move(head)};
  }
  const size_t begin = head.size();
  head.resize(begin + transform.output_bytes());
  MR_TRY(transform.run(encoded, 0, workspace, std::as_writable_bytes(std::span(head)).subspan(begin)));
  return Picture{transform.spec().size, std::move(head)};
}

Result<std::string> encode(const ImageWork& work, const decode::Transform& transform,
                           std::string_view encoded, decode::Workspace& workspace) {
  const auto npy = [&](decode::Size size) {
    return decode::npy_header(dtype_of(work.spec.type), shape_of(work.spec, size));
  };
  const bool is_npy = work.to == ImageOutput::kNpy;
  const bool is_fixed = transform.output_bytes() > 0;
  Picture picture =
      MR_TRY(make_pixels(transform, encoded, workspace, is_npy && is_fixed ? npy(work.spec.size) : ""));
  if (is_npy) return is_fixed ? std::move(picture.bytes) : npy(picture.size) + picture.bytes;
  return work.to == ImageOutput::kJpeg ? decode::encode_jpeg(picture.view(work.spec.channels), work.quality)
                                       : decode::encode_png(picture.view(work.spec.channels));
}

const ChosenField* find_image(const std::vector<ChosenField>& fields, const ImageWork& work) {
  for (const std::string& name : work.any_of) {
    const auto found = std::ranges::find(fields, name, &ChosenField::name);
    if (found != fields.end()) return &*found;
  }
  return nullptr;
}

Error no_image(const ImageWork& work, const tar::Sample& sample) {
  return make_error(Code::kNotFound, "it has no field {}: it has {}", fmt::join(work.any_of, " or "),
                    tar::names_of_fields(sample.fields));
}

// One sample with its fields chosen and its image made anew.
class SampleWork {
 public:
  SampleWork(const Description& description, std::optional<decode::Transform> transform, ImageRunner& runner)
      : description_(description), transform_(std::move(transform)), runner_(runner) {}

  Result<MadeSamples> work(const tar::Sample& sample) const {
    const auto fields = MR_TRY(choose_fields(sample, description_.choices));
    const ChosenField* const image = transform_ ? find_image(fields, description_.image) : nullptr;
    if (transform_ && image == nullptr) return no_image(description_.image, sample);
    std::string encoded;
    std::string name;
    if (image != nullptr) {
      encoded = MR_TRY(make_image(image->bytes).within("field " + image->name));
      name = renamed(image->name, description_.image.to);
    }
    std::vector<MadeField> made;
    for (const ChosenField& field : fields) {
      if (&field == image) {
        made.push_back({name, encoded});
      } else {
        made.push_back({field.name, field.bytes});
      }
    }
    MadeSamples result;
    MR_TRY(append_sample(result.blocks, sample.key, made));
    result.samples = 1;
    return result;
  }

  // The field as it goes into the result.
  Result<std::string> make_image(std::string_view encoded) const {
    auto workspace = runner_.take_workspace();
    auto made = encode(description_.image, *transform_, encoded, *workspace);
    runner_.give_back(std::move(workspace));
    return made;
  }
  // The bare pixels.
  Result<std::string> make_bare(std::string_view encoded) const {
    auto workspace = runner_.take_workspace();
    auto picture = make_pixels(*transform_, encoded, *workspace, "");
    runner_.give_back(std::move(workspace));
    if (!picture) return picture.take_error();
    return std::move(picture->bytes);
  }

 private:
  const Description& description_;
  const std::optional<decode::Transform> transform_;
  ImageRunner& runner_;
};

// Takes samples one by one, as blocks, and writes one of many for every `stack` of them.
class Stacks final : public tar::ByteSink {
 public:
  Stacks(const ImageWork& work, tar::ByteSink& out) : work_(work), out_(out) {}

  // As SampleWork made it: "npy" is the image, the label is beside it.
  Status write(std::string_view blocks) override {
    tar::SampleParser parser(tar::KeyRule::kFirstDot);
    const tar::Sample* sample = MR_TRY(parser.parse(blocks));
    pixels_ += sample->find("npy")->bytes;
    if (!work_.label.empty()) labels_ += sample->find(work_.label)->bytes;
    keys_.push_back(printable(sample->key));
    return keys_.size() == work_.stack ? emit() : Status();
  }
  Status finish() override { return keys_.empty() ? Status() : emit(); }
  uint64_t made() const { return made_; }

 private:
  Status emit() {
    std::vector<uint64_t> shape = shape_of(work_.spec, work_.spec.size);
    shape.insert(shape.begin(), keys_.size());
    const std::string images = decode::npy_header(dtype_of(work_.spec.type), shape) + pixels_;
    const std::string labels = decode::npy_header(DType::kInt64, {keys_.size()}) + labels_;
    const std::string keys = keys_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::vector<MadeField> fields = {{"npy", images}, {"keys.json", keys}};
    const std::string label_name = work_.label + ".npy";
    if (!work_.label.empty()) fields.push_back({label_name, labels});
    std::string blocks;
    MR_TRY(append_sample(blocks, fmt::format("stack-{:06}", made_), fields));
    ++made_;
    pixels_.clear();
    labels_.clear();
    keys_.clear();
    return out_.write(blocks);
  }

  const ImageWork& work_;
  tar::ByteSink& out_;
  std::string pixels_;
  std::string labels_;  // int64, little-endian
  nlohmann::json keys_ = nlohmann::json::array();
  uint64_t made_ = 0;
};

// What Stacks takes: the bare pixels, and the label as eight bytes.
Result<MadeSamples> make_part(const SampleWork& work, const Description& description,
                              const tar::Sample& sample) {
  const auto fields = MR_TRY(choose_fields(sample, description.choices));
  const ChosenField* const image = find_image(fields, description.image);
  if (image == nullptr) return no_image(description.image, sample);
  const std::string pixels = MR_TRY(work.make_bare(image->bytes).within("field " + image->name));
  std::vector<MadeField> parts = {{"npy", pixels}};
  std::string label;
  const std::string& name = description.image.label;
  if (!name.empty()) {
    const auto found = std::ranges::find(fields, name, &ChosenField::name);
    if (found == fields.end()) return make_error(Code::kNotFound, "it has no field {}", name);
    const auto number = MR_TRY(decode::parse_label(found->bytes).within("field " + name));
    for (int shift = 0; shift < 64; shift += 8)
      label += static_cast<char>(static_cast<uint64_t>(number) >> shift & 0xff);
    parts.push_back({name, label});
  }
  MadeSamples made;
  MR_TRY(append_sample(made.blocks, sample.key, parts));
  made.samples = 1;
  return made;
}

}  // namespace

std::unique_ptr<decode::Workspace> ImageRunner::take_workspace() {
  const MutexLock lock(mutex_);
  if (idle_.empty()) return std::make_unique<decode::Workspace>();
  auto workspace = std::move(idle_.back());
  idle_.pop_back();
  return workspace;
}

void ImageRunner::give_back(std::unique_ptr<decode::Workspace> workspace) {
  const MutexLock lock(mutex_);
  if (idle_.size() < threads_) idle_.push_back(std::move(workspace));
}

Result<Outcome> ImageRunner::run(const Registered& transform, const Input& input, tar::ByteSink& out) {
  const Description& description = transform.description;
  std::optional<decode::Transform> decoding;
  if (description.has_image) decoding = MR_TRY(decode::Transform::make(description.image.spec));
  const SampleWork work(description, std::move(decoding), *this);
  const bool is_stacked = description.has_image && description.image.stack > 0;
  const auto make = [&](const tar::Sample& sample) {
    return is_stacked ? make_part(work, description, sample) : work.work(sample);
  };
  const InOrder options{input, description.on_error, workers_, threads_, make};
  if (!is_stacked) return map_in_order(options, out);
  Stacks stacks(description.image, out);
  Outcome outcome = MR_TRY(map_in_order(options, stacks));
  MR_TRY(stacks.finish());
  outcome.out = stacks.made();
  return outcome;
}

}  // namespace millrace::transform
