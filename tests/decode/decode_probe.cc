// Lets test_against_pil.py see what src/decode makes of a file:
//
//   decode_probe decode FILE [channels=3] [region=X,Y,W,H]
//   decode_probe resample FILE box=X,Y,W,H size=W,H [channels=3]
//   decode_probe transform FILE key=N [crop=none|center|random|random-resized] [resize=N] [size=W,H]
//                [scale=FROM,TO] [ratio=FROM,TO] [flip=1] [type=uint8|float32|float16] [layout=hwc|chw]
//                [mean=A,B,C] [deviation=A,B,C] [from=pixels]
//   decode_probe bounded FILE side=N
//   decode_probe npy FILE
//
// One line of numbers on standard output, then raw samples. Exit 1 and the error's code and message if it
// fails.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/assert.h"
#include "decode/image.h"
#include "decode/npy.h"
#include "decode/transform.h"

namespace {

using namespace millrace;
using namespace millrace::decode;

class Options {
 public:
  Options(int count, char** words) {
    for (int i = 0; i < count; ++i) {
      const std::string word = words[i];
      const size_t equals = word.find('=');
      MR_ASSERT(equals != word.npos, word);
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }

  std::string text(const std::string& name, const std::string& otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  std::vector<double> numbers(const std::string& name) const {
    std::vector<double> numbers;
    const std::string list = text(name, "");
    for (size_t at = 0; at < list.size();) {
      size_t used = 0;
      numbers.push_back(std::stod(list.substr(at), &used));
      at += used + 1;
    }
    return numbers;
  }
  uint32_t number(const std::string& name, uint32_t otherwise) const {
    const auto found = numbers(name);
    return found.empty() ? otherwise : static_cast<uint32_t>(found[0]);
  }
  Channels channels() const { return static_cast<Channels>(number("channels", 3)); }

 private:
  std::map<std::string, std::string> values_;
};

Size to_size(const std::vector<double>& numbers) {
  if (numbers.empty()) return {};
  return {static_cast<uint32_t>(numbers.at(0)), static_cast<uint32_t>(numbers.at(1))};
}

void put(const void* bytes, size_t count) {
  MR_ASSERT(std::fwrite(bytes, 1, count, stdout) == count);
}

void put_pixels(const Pixels& pixels) {
  fmt::print("{} {} {}\n", pixels.size().width, pixels.size().height, count(pixels.channels()));
  std::fflush(stdout);
  put(pixels.row(0), pixels.byte_count());
}

void put_array(const std::string& name, const ArrayView& array) {
  fmt::print("{} {} {} {}\n", name, numpy_name(array.dtype), array.fortran ? "F" : "C",
             fmt::join(array.shape, ","));
  std::fflush(stdout);
  put(array.bytes.data(), array.bytes.size());
}

Status decode_file(const std::string& bytes, const Options& options) {
  DecodeOptions asked;
  asked.channels = options.channels();
  if (const auto r = options.numbers("region"); !r.empty()) {
    asked.region = Rect{static_cast<uint32_t>(r.at(0)), static_cast<uint32_t>(r.at(1)),
                        static_cast<uint32_t>(r.at(2)), static_cast<uint32_t>(r.at(3))};
  }
  ImageDecoder decoder;
  Pixels pixels;
  MR_TRY(decoder.decode(bytes, asked, pixels));
  put_pixels(pixels);
  return {};
}

Status resample_file(const std::string& bytes, const Options& options) {
  DecodeOptions asked;
  asked.channels = options.channels();
  ImageDecoder decoder;
  Pixels pixels;
  MR_TRY(decoder.decode(bytes, asked, pixels));
  const auto b = options.numbers("box");
  ResampleScratch scratch;
  Pixels out;
  resample(pixels.view(), {b.at(0), b.at(1), b.at(2), b.at(3)}, to_size(options.numbers("size")), scratch,
           out);
  put_pixels(out);
  return {};
}

TransformSpec read_spec(const Options& options) {
  using Spec = TransformSpec;
  Spec spec;
  spec.channels = options.channels();
  const std::map<std::string, Spec::Crop> crops{{"none", Spec::Crop::kNone},
                                                {"center", Spec::Crop::kCenter},
                                                {"random", Spec::Crop::kRandom},
                                                {"random-resized", Spec::Crop::kRandomResized}};
  spec.crop = crops.at(options.text("crop", "none"));
  spec.resize = options.number("resize", 0);
  spec.size = to_size(options.numbers("size"));
  if (const auto scale = options.numbers("scale"); !scale.empty()) {
    spec.scale_from = scale.at(0);
    spec.scale_to = scale.at(1);
  }
  if (const auto ratio = options.numbers("ratio"); !ratio.empty()) {
    spec.ratio_from = ratio.at(0);
    spec.ratio_to = ratio.at(1);
  }
  spec.flip = options.number("flip", 0) != 0;
  const std::map<std::string, Spec::Type> types{
      {"uint8", Spec::Type::kUint8}, {"float32", Spec::Type::kFloat32}, {"float16", Spec::Type::kFloat16}};
  spec.type = types.at(options.text("type", "uint8"));
  spec.layout = options.text("layout", "hwc") == "chw" ? Spec::Layout::kChw : Spec::Layout::kHwc;
  const auto mean = options.numbers("mean");
  const auto deviation = options.numbers("deviation");
  for (size_t i = 0; i < mean.size(); ++i) spec.mean.at(i) = static_cast<float>(mean[i]);
  for (size_t i = 0; i < deviation.size(); ++i) spec.deviation.at(i) = static_cast<float>(deviation[i]);
  return spec;
}

Status transform_file(const std::string& bytes, const Options& options) {
  const Transform transform = MR_TRY(Transform::make(read_spec(options)));
  const uint64_t key = std::stoull(options.text("key", "0"));
  Workspace workspace;
  std::vector<std::byte> out(transform.output_bytes());
  Size size = transform.spec().size;
  if (out.empty()) {
    RaggedImage image = MR_TRY(transform.run_ragged(bytes, key, workspace));
    out = std::move(image.bytes);
    size = image.size;
  } else if (options.text("from", "bytes") == "pixels") {
    DecodeOptions asked;
    asked.channels = options.channels();
    Pixels pixels;
    MR_TRY(workspace.decoder.decode(bytes, asked, pixels));
    MR_TRY(transform.run(pixels.view(), key, workspace, out));
  } else {
    MR_TRY(transform.run(bytes, key, workspace, out));
  }
  const Size image_size = MR_TRY(read_size(bytes));
  const Placement placed = MR_TRY(transform.place(image_size, key));
  fmt::print("{} {} {} {} {} {} {}\n", size.width, size.height, placed.crop.x, placed.crop.y,
             placed.crop.width, placed.crop.height, placed.flipped ? 1 : 0);
  std::fflush(stdout);
  put(out.data(), out.size());
  return {};
}

Status bound_file(const std::string& bytes, const Options& options) {
  Workspace workspace;
  Pixels pixels;
  MR_TRY(decode_bounded(bytes, options.number("side", 256), workspace, pixels, options.channels()));
  put_pixels(pixels);
  return {};
}

Status run(const std::string& verb, const std::string& bytes, const Options& options) {
  if (verb == "decode") return decode_file(bytes, options);
  if (verb == "resample") return resample_file(bytes, options);
  if (verb == "transform") return transform_file(bytes, options);
  if (verb == "bounded") return bound_file(bytes, options);
  if (verb != "npy") return make_error(Code::kInvalid, "there is no verb {}", verb);
  put_array("array", MR_TRY(parse_npy(bytes)));
  return {};
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    fmt::print(stderr, "usage: decode_probe decode|resample|transform|bounded|npy FILE …\n");
    return 2;
  }
  std::ifstream file(words[2], std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const Status done = run(words[1], bytes, Options(count - 3, words + 3));
  if (done) return 0;
  fmt::print(stderr, "{}: {}\n", code_name(done.error().code()), done.error().message());
  return 1;
}
