// Turns the JPEGs of a directory into 224 x 224 crops, float32, channels first, normalised: the CPU seconds
// of all threads, and those on the clock from their common start to the last one's end.
//
//   decode_bench rrc|rrc-pixels|rrc-plain|resize|whole DIRECTORY [PASSES [THREADS]]
//
// rrc: from encoded bytes. rrc-pixels: from pixels that were kept. rrc-plain: without AVX2 in the resampling.
// resize: the middle at 224 x 224, uint8, channels last. whole: decoding alone, all of each image.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
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

Transform make_transform(const std::string& mode) {
  TransformSpec spec;
  if (mode == "resize") {
    spec.crop = TransformSpec::Crop::kCenter;
    spec.resize = 224;
    spec.size = {224, 224};
    return Transform::make(spec).take();
  }
  spec.crop = TransformSpec::Crop::kRandomResized;
  spec.size = {224, 224};
  spec.flip = true;
  spec.type = TransformSpec::Type::kFloat32;
  spec.layout = TransformSpec::Layout::kChw;
  spec.mean = {0.485F, 0.456F, 0.406F, 0};
  spec.deviation = {0.229F, 0.224F, 0.225F, 1};
  return Transform::make(spec).take();
}

// What one thread does: all images, so many times.
class Run {
 public:
  Run(std::string mode, const std::vector<std::string>& images) : mode_(std::move(mode)), images_(images) {
    if (mode_ == "rrc-plain") workspace_.scratch = ResampleScratch(Instructions::kPlain);
    kept_.resize(images.size());
    for (size_t i = 0; mode_ == "rrc-pixels" && i < images.size(); ++i)
      workspace_.decoder.decode(images[i], {}, kept_[i]).take();
  }

  double cpu_seconds_of(int passes) {
    const double start = cpu_seconds();
    uint64_t key = 0;
    for (int pass = 0; pass < passes; ++pass) {
      for (size_t i = 0; i < images_.size(); ++i, ++key) decode(i, key);
    }
    return cpu_seconds() - start;
  }

 private:
  void decode(size_t image, uint64_t key) {
    const std::span<std::byte> slot(batch_ + key % 64 * transform_.output_bytes(), transform_.output_bytes());
    if (mode_ == "whole") {
      workspace_.decoder.decode(images_[image], {}, workspace_.pixels).take();
    } else if (mode_ == "rrc-pixels") {
      transform_.run(kept_[image].view(), key, workspace_, slot).take();
    } else {
      transform_.run(images_[image], key, workspace_, slot).take();
    }
  }

  const std::string mode_;
  const std::vector<std::string>& images_;
  const Transform transform_ = make_transform(mode_);
  Workspace workspace_;
  std::vector<Pixels> kept_;
  // A batch's worth of slots: the result does not stay in the cache, as in training it would not.
  std::vector<std::byte> memory_ = std::vector<std::byte>(transform_.output_bytes() * 64 + 64, std::byte{1});
  std::byte* const batch_ = memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64);
};

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    fmt::print(stderr,
               "usage: decode_bench rrc|rrc-pixels|rrc-plain|resize|whole DIRECTORY [PASSES [THREADS]]\n");
    return 2;
  }
  const std::vector<std::string> images = read_all(words[2]);
  const int passes = count > 3 ? std::atoi(words[3]) : 1;
  const int threads = count > 4 ? std::atoi(words[4]) : 1;
  std::barrier ready(threads + 1);
  std::atomic<double> cpu = 0;
  std::vector<std::jthread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&] {
      Run run(words[1], images);
      ready.arrive_and_wait();
      cpu += run.cpu_seconds_of(passes);
    });
  }
  ready.arrive_and_wait();
  const auto start = std::chrono::steady_clock::now();
  running.clear();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  fmt::print("{{\"seconds\": {}, \"wall\": {}, \"images\": {}}}\n", cpu.load(), wall.count(),
             images.size() * static_cast<size_t>(passes) * static_cast<size_t>(threads));
  return 0;
}
