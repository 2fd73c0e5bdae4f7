// The code of cluster/stripe.h against ISA-L called directly, on the same buffers, by turns in one process:
// 4+2 in cells of 1 MiB.
//
//   stripe_bench ROUNDS      prints a JSON object: per case the seconds of each round, ours and ISA-L's, and
//   the
//                            bytes of data in one of them
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <isa-l/erasure_code.h>
#include <time.h>

#include <array>
#include <functional>
#include <vector>

#include "base/assert.h"
#include "base/number.h"
#include "base/random.h"
#include "cluster/stripe.h"

namespace {

using namespace millrace;
using namespace millrace::cluster;

constexpr unsigned kData = 4;
constexpr unsigned kParity = 2;
constexpr int kRepeats = 400;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_of(const std::function<void()>& work) {
  const double start = cpu_seconds();
  for (int i = 0; i < kRepeats; ++i) work();
  return cpu_seconds() - start;
}

class Buffers {
 public:
  Buffers() {
    Random random(1);
    for (std::vector<std::byte>& slot : slots_) {
      slot.resize(kCellBytes);
      for (std::byte& byte : slot) byte = static_cast<std::byte>(random.next());
    }
  }
  std::vector<Cell> cells(const std::vector<unsigned>& slots) const {
    std::vector<Cell> cells;
    for (const unsigned slot : slots) cells.emplace_back(slots_[slot]);
    return cells;
  }
  std::vector<CellSpace> spaces(const std::vector<unsigned>& slots) {
    std::vector<CellSpace> spaces;
    for (const unsigned slot : slots) spaces.emplace_back(slots_[slot]);
    return spaces;
  }
  std::vector<unsigned char*> pointers(const std::vector<unsigned>& slots) {
    std::vector<unsigned char*> pointers;
    for (const unsigned slot : slots)
      pointers.push_back(reinterpret_cast<unsigned char*>(slots_[slot].data()));
    return pointers;
  }

 private:
  std::array<std::vector<std::byte>, kData + kParity> slots_;
};

// ISA-L as its own examples call it: the tables are made before, only ec_encode_data is timed.
class Direct {
 public:
  Direct(Buffers& buffers, const std::vector<unsigned>& sources, const std::vector<unsigned>& targets,
         std::vector<unsigned char> rows)
      : sources_(buffers.pointers(sources)),
        targets_(buffers.pointers(targets)),
        tables_(32 * sources.size() * targets.size()) {
    ec_init_tables(static_cast<int>(sources.size()), static_cast<int>(targets.size()), rows.data(),
                   tables_.data());
  }
  void run() {
    ec_encode_data(static_cast<int>(kCellBytes), static_cast<int>(sources_.size()),
                   static_cast<int>(targets_.size()), tables_.data(), sources_.data(), targets_.data());
  }

 private:
  std::vector<unsigned char*> sources_;
  std::vector<unsigned char*> targets_;
  std::vector<unsigned char> tables_;
};

void measure(const char* name, int rounds, const std::function<void()>& ours,
             const std::function<void()>& theirs) {
  std::vector<double> seconds;
  std::vector<double> peers;
  static_cast<void>(seconds_of(ours));
  static_cast<void>(seconds_of(theirs));
  for (int round = 0; round < rounds; ++round) {
    seconds.push_back(seconds_of(ours));
    peers.push_back(seconds_of(theirs));
  }
  fmt::print("\"{}\": {{\"ours\": [{}], \"isal\": [{}]}}, ", name, fmt::join(seconds, ", "),
             fmt::join(peers, ", "));
}

}  // namespace

int main(int argc, char** argv) {
  const auto rounds = parse_number<int>(argc == 2 ? argv[1] : "");
  MR_ASSERT(rounds && *rounds > 0, "stripe_bench ROUNDS");
  Buffers buffers;
  const Coder coder(kData, kParity);
  std::vector<unsigned char> matrix(kData * (kData + kParity));
  gf_gen_cauchy1_matrix(matrix.data(), kData + kParity, kData);

  const std::vector<unsigned> data_slots = {0, 1, 2, 3};
  const std::vector<unsigned> parity_slots = {4, 5};
  const auto cells = buffers.cells(data_slots);
  const auto parity = buffers.spaces(parity_slots);
  Direct encoding(buffers, data_slots, parity_slots, {matrix.begin() + kData * kData, matrix.end()});
  fmt::print("{{");
  measure("encode", *rounds, [&] { coder.encode(cells, parity); }, [&] { encoding.run(); });

  // The first two slots are lost. The factors do not change how long ISA-L takes, so any will do.
  const std::vector<unsigned> present = {2, 3, 4, 5};
  const std::vector<unsigned> lost = {0, 1};
  const Decoding plan = Decoding::make(coder, present, lost).take();
  const auto sources = buffers.cells(plan.sources());
  const auto wanted = buffers.spaces(lost);
  Direct decoding(buffers, present, lost, {matrix.begin() + kData * kData, matrix.end()});
  measure("decode", *rounds, [&] { plan.run(sources, wanted); }, [&] { decoding.run(); });
  fmt::print("\"bytes\": {}}}\n", uint64_t{kRepeats} * kData * kCellBytes);
  return 0;
}
