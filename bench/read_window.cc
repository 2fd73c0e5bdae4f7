// What the size of a read window does on a rotational drive with many readers: the store's own scheduler over
// a drive whose cost is known: 8 ms whenever another stream's bytes come next, 200 MB/s otherwise.
//
//   read_window [STREAMS]
//
// Time is counted, not waited for, so the result is the same on every machine.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <vector>

#include "store/read_scheduler.h"

namespace {

constexpr double kSeekSeconds = 0.008;
constexpr double kBytesPerSecond = 200e6;
constexpr uint64_t kStreamBytes = 64 << 20;

struct Drive {
  double seconds = 0;  // touched by the one reading thread only
  int last_stream = -1;
  void read(int stream, uint64_t bytes) {
    if (stream != last_stream) seconds += kSeekSeconds;
    last_stream = stream;
    seconds += static_cast<double>(bytes) / kBytesPerSecond;
  }
};

double throughput(int streams, uint64_t window) {
  Drive drive;
  millrace::store::ReadScheduler scheduler(1);
  std::vector<uint64_t> left(static_cast<size_t>(streams), kStreamBytes);
  std::promise<void> all;
  int unfinished = streams;
  // Each stream asks for its next window when it has the one before, as a connection does.
  std::function<void(int)> ask = [&](int stream) {
    const bool taken = scheduler.read([&, stream] {
      drive.read(stream, window);
      left[static_cast<size_t>(stream)] -= window;
      if (left[static_cast<size_t>(stream)] > 0) {
        ask(stream);
      } else if (--unfinished == 0) {
        all.set_value();
      }
    });
    if (!taken) std::abort();
  };
  for (int stream = 0; stream < streams; ++stream) ask(stream);
  all.get_future().wait();
  return static_cast<double>(streams) * static_cast<double>(kStreamBytes) / drive.seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const int streams = argc > 1 ? std::atoi(argv[1]) : 16;
  std::printf("%d streams, 8 ms to another stream, 200 MB/s in sequence\n", streams);
  for (const uint64_t kib : {128, 512, 1024, 4096, 16384}) {
    std::printf("window %6lu KiB: %6.1f MB/s\n", kib, throughput(streams, kib << 10) / 1e6);
  }
  return 0;
}
