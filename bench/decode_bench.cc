// One thread turns the JPEGs of a directory into 224 x 224 crops, float32, channels first, normalised: the
// CPU seconds.
//
//   decode_bench rrc|rrc-pixels|rrc-plain|whole DIRECTORY [PASSES]
//
// rrc: from encoded bytes. rrc-pixels: from pixels that were kept. rrc-plain: without AVX2 in the resampling.
// whole: decoding alone, all of each image.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/assert.h"
#include "decode/transform.h"

namespace {

using namespace millrace;
using namespace millrace::decode;

std::vector<std::string> read_all(const char* directory) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> images;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    images.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return images;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Transform make_transform() {
  TransformSpec spec;
  spec.crop = TransformSpec::Crop::kRandomResized;
  spec.size = {224, 224};
  spec.flip = true;
  spec.type = TransformSpec::Type::kFloat32;
  spec.layout = TransformSpec::Layout::kChw;
  spec.mean = {0.485F, 0.456F, 0.406F, 0};
  spec.deviation = {0.229F, 0.224F, 0.225F, 1};
  return Transform::make(spec).take();
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    fmt::print(stderr, "usage: decode_bench rrc|rrc-pixels|rrc-plain|whole DIRECTORY [PASSES]\n");
    return 2;
  }
  const std::string mode = words[1];
  const std::vector<std::string> images = read_all(words[2]);
  const int passes = count > 3 ? std::atoi(words[3]) : 1;
  const Transform transform = make_transform();
  Workspace workspace;
  if (mode == "rrc-plain") workspace.scratch = ResampleScratch(Instructions::kPlain);
  std::vector<Pixels> kept(images.size());
  for (size_t i = 0; mode == "rrc-pixels" && i < images.size(); ++i) {
    workspace.decoder.decode(images[i], {}, kept[i]).take();
  }
  // A batch's worth of slots: the result does not stay in the cache, as in training it would not.
  std::vector<std::byte> memory(transform.output_bytes() * 64 + 64, std::byte{1});
  std::byte* batch = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  uint64_t key = 0;
  const double start = cpu_seconds();
  for (int pass = 0; pass < passes; ++pass) {
    for (size_t i = 0; i < images.size(); ++i, ++key) {
      const std::span<std::byte> slot(batch + key % 64 * transform.output_bytes(),
                                      transform.output_bytes());
      if (mode == "whole") {
        workspace.decoder.decode(images[i], {}, workspace.pixels).take();
      } else if (mode == "rrc-pixels") {
        transform.run(kept[i].view(), key, workspace, slot).take();
      } else {
        transform.run(images[i], key, workspace, slot).take();
      }
    }
  }
  fmt::print("{{\"seconds\": {}, \"images\": {}}}\n", cpu_seconds() - start, key);
  return 0;
}
