// Counting, and adding up operations that share a meter.
#include "gateway/meters.h"

#include <algorithm>

namespace millrace::gateway {

void Meters::count(Operation operation, const Counts& counts) {
  Counted& counted = counted_[static_cast<size_t>(operation)];
  counted.out.count(counts.bytes_out, counts.microseconds);
  counted.bytes_in.fetch_add(counts.bytes_in, std::memory_order_relaxed);
  if (counts.status == 307) redirected_.fetch_add(1, std::memory_order_relaxed);
  if (counts.status >= 500)
    counted.out.count_error();
  else if (counts.status >= 400)
    counted.client_errors.fetch_add(1, std::memory_order_relaxed);
}

std::vector<MeterReading> Meters::read() const {
  std::vector<MeterReading> readings;
  for (size_t i = 0; i < kOperations; ++i) {
    const Meter::Reading out = counted_[i].out.read();
    if (out.count == 0) continue;
    const std::string_view meter = row_of(static_cast<Operation>(i)).meter;
    auto found = std::ranges::find(readings, meter, &MeterReading::meter);
    if (found == readings.end()) found = readings.insert(found, MeterReading{meter, {}, 0, 0});
    found->out.add(out);
    found->bytes_in += counted_[i].bytes_in.load(std::memory_order_relaxed);
    found->client_errors += counted_[i].client_errors.load(std::memory_order_relaxed);
  }
  return readings;
}

}  // namespace millrace::gateway
