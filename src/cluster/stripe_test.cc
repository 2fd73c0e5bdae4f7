// Cells are where a naive count finds them, and every loss that the code covers is made good.
#include "cluster/stripe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace millrace::cluster {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(uint64_t size, Random& random) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

// An object as slices in memory.
struct Slices {
  Layout layout;
  std::vector<Bytes> slots;

  Slices(const Layout& of_object, const Coder& coder, const Bytes& object) : layout(of_object) {
    for (unsigned slot = 0; slot < layout.k + layout.m; ++slot) slots.emplace_back(layout.slice_size(slot));
    for (uint64_t at = 0; at < object.size();) {
      const Layout::Stretch stretch = layout.locate(at);
      std::copy_n(object.begin() + static_cast<ptrdiff_t>(at), stretch.size,
                  slots[stretch.slot].begin() + static_cast<ptrdiff_t>(stretch.offset));
      at += stretch.size;
    }
    for (uint64_t stripe = 0; stripe < layout.stripes(); ++stripe) {
      std::vector<Cell> cells;
      std::vector<CellSpace> parity;
      for (unsigned slot = 0; slot < layout.k; ++slot) cells.push_back(space(stripe, slot));
      for (unsigned slot = layout.k; slot < layout.k + layout.m; ++slot)
        parity.push_back(space(stripe, slot));
      coder.encode(cells, parity);
    }
  }

  CellSpace space(uint64_t stripe, unsigned slot) {
    return std::span(slots[slot]).subspan(layout.cell_offset(stripe), layout.cell_size(stripe, slot));
  }

  Bytes object() const {
    Bytes bytes;
    while (bytes.size() < layout.size) {
      const Layout::Stretch stretch = layout.locate(bytes.size());
      const auto from = slots[stretch.slot].begin() + static_cast<ptrdiff_t>(stretch.offset);
      bytes.insert(bytes.end(), from, from + static_cast<ptrdiff_t>(stretch.size));
    }
    return bytes;
  }

  // Overwrites the lost slices and brings them back from the others, which are asked for in this order.
  Status lose_and_rebuild(const Coder& coder, const std::vector<unsigned>& present,
                          const std::vector<unsigned>& lost) {
    for (const unsigned slot : lost) std::ranges::fill(slots[slot], std::byte{0xee});
    const Decoding decoding = MR_TRY(Decoding::make(coder, present, lost));
    for (uint64_t stripe = 0; stripe < layout.stripes(); ++stripe) {
      std::vector<Cell> cells;
      std::vector<CellSpace> wanted;
      for (const unsigned slot : decoding.sources()) cells.push_back(space(stripe, slot));
      for (const unsigned slot : lost) wanted.push_back(space(stripe, slot));
      decoding.run(cells, wanted);
    }
    return {};
  }
};

std::vector<uint64_t> telling_sizes(unsigned k, uint64_t cell) {
  std::vector<uint64_t> sizes = {0, 1, cell - 1, cell, cell + 1, k * cell - 1, k * cell, k * cell + 1};
  // Last stripes that end in each of their cells, behind one that is whole.
  for (unsigned cells = 1; cells < k; ++cells) {
    sizes.push_back(k * cell + cells * cell);
    sizes.push_back(k * cell + cells * cell + cell / 2);
  }
  return sizes;
}

class CodeTest : public ::testing::TestWithParam<std::pair<unsigned, unsigned>> {
 protected:
  const unsigned k_ = GetParam().first;
  const unsigned m_ = GetParam().second;
};
INSTANTIATE_TEST_SUITE_P(StripeTest, CodeTest,
                         ::testing::Values(std::pair(1U, 0U), std::pair(1U, 2U), std::pair(2U, 1U),
                                           std::pair(4U, 2U), std::pair(8U, 3U)),
                         [](const auto& tested) {
                           return std::to_string(tested.param.first) + "and" +
                                  std::to_string(tested.param.second);
                         });

TEST_P(CodeTest, EveryLossOfUpToMSlicesOfEverySizeIsMadeGood) {
  constexpr uint64_t kCell = 37;
  Random random(k_ * 100 + m_);
  const Coder coder(k_, m_);
  const unsigned slices = k_ + m_;
  for (const uint64_t size : telling_sizes(k_, kCell)) {
    const Bytes object = random_bytes(size, random);
    const Slices whole({k_, m_, kCell, size}, coder, object);
    ASSERT_EQ(whole.object(), object) << size;
    for (uint32_t losses = 0; losses < (1U << slices); ++losses) {
      std::vector<unsigned> lost;
      std::vector<unsigned> present;
      for (unsigned slot = 0; slot < slices; ++slot)
        ((losses >> slot & 1) != 0 ? lost : present).push_back(slot);
      if (lost.size() > m_) continue;
      Slices rebuilt = whole;
      ASSERT_TRUE(rebuilt.lose_and_rebuild(coder, present, lost));
      ASSERT_EQ(rebuilt.slots, whole.slots) << "size " << size << " losses " << losses;
    }
  }
}

TEST_P(CodeTest, MoreThanMMissingIsAnErrorThatSaysSo) {
  const Coder coder(k_, m_);
  std::vector<unsigned> present;
  for (unsigned slot = m_ + 1; slot < k_ + m_; ++slot) present.push_back(slot);
  const std::vector<unsigned> wanted = {0};
  const auto decoding = Decoding::make(coder, present, wanted);
  ASSERT_FALSE(decoding);
  EXPECT_EQ(decoding.error().code(), Code::kUnavailable);
  EXPECT_EQ(decoding.error().message(), "only " + std::to_string(k_ - 1) + " of " + std::to_string(k_ + m_) +
                                            " slices are there, and " + std::to_string(k_) + " are needed");
}

// Byte by byte, as the text of the header has it.
struct NaiveSlices {
  std::vector<uint64_t> sizes;
  std::vector<std::pair<unsigned, uint64_t>> places;  // of each byte of the object: slot, offset

  explicit NaiveSlices(const Layout& layout) : sizes(layout.k) {
    for (uint64_t at = 0; at < layout.size; ++at) {
      const auto slot = static_cast<unsigned>(at / layout.cell % layout.k);
      places.emplace_back(slot, sizes[slot]++);
    }
  }
  uint64_t run(uint64_t at) const {
    uint64_t count = 1;
    while (at + count < places.size() && places[at + count].first == places[at].first &&
           places[at + count].second == places[at].second + count)
      ++count;
    return count;
  }
};

TEST_P(CodeTest, BytesLieWhereANaiveCountFindsThem) {
  constexpr uint64_t kCell = 5;
  for (uint64_t size = 0; size <= 3 * k_ * kCell + 1; ++size) {
    const Layout layout{k_, m_, kCell, size};
    const NaiveSlices naive(layout);
    for (unsigned slot = 0; slot < k_; ++slot) EXPECT_EQ(layout.slice_size(slot), naive.sizes[slot]);
    for (unsigned slot = k_; slot < k_ + m_; ++slot) EXPECT_EQ(layout.slice_size(slot), naive.sizes[0]);
    for (uint64_t at = 0; at < size; ++at) {
      const Layout::Stretch expected{naive.places[at].first, naive.places[at].second, naive.run(at)};
      ASSERT_EQ(layout.locate(at), expected) << "size " << size << " byte " << at;
      ASSERT_EQ(layout.offset_of(expected), at) << "size " << size;
    }
  }
}

TEST_P(CodeTest, TheCellsOfAllStripesMakeTheSlices) {
  constexpr uint64_t kCell = 5;
  for (uint64_t size = 0; size <= 3 * k_ * kCell + 1; ++size) {
    const Layout layout{k_, m_, kCell, size};
    for (unsigned slot = 0; slot < k_ + m_; ++slot) {
      uint64_t end = 0;
      for (uint64_t stripe = 0; stripe < layout.stripes(); ++stripe) {
        EXPECT_GT(layout.cell_size(stripe, 0), 0U);
        // An empty cell of the last stripe begins where its slice ends.
        EXPECT_EQ(layout.cell_offset(stripe), end);
        end += layout.cell_size(stripe, slot);
      }
      EXPECT_EQ(end, layout.slice_size(slot)) << "size " << size << " slot " << slot;
    }
  }
}

TEST(StripeTest, SixteenAndFourSurviveRandomLossesInAnyOrderOfReading) {
  const uint64_t seed = 20;
  Random random(seed);
  const Coder coder(16, 4);
  constexpr uint64_t kCell = 1000;
  for (int turn = 0; turn < 200; ++turn) {
    const Bytes object = random_bytes(random.below(40 * kCell), random);
    const Slices whole({16, 4, kCell, object.size()}, coder, object);
    std::vector<unsigned> order(20);
    for (unsigned slot = 0; slot < 20; ++slot) order[slot] = slot;
    random.shuffle(std::span(order));
    const auto missing = static_cast<ptrdiff_t>(random.below(5));
    const std::vector<unsigned> lost(order.begin(), order.begin() + missing);
    const std::vector<unsigned> present(order.begin() + missing, order.end());
    Slices rebuilt = whole;
    ASSERT_TRUE(rebuilt.lose_and_rebuild(coder, present, lost));
    ASSERT_EQ(rebuilt.slots, whole.slots) << "seed " << seed << " turn " << turn;
  }
}

TEST(StripeTest, LargeCellsThatEndAnywhereAreMadeGood) {
  Random random(7);
  const Coder coder(4, 2);
  constexpr uint64_t kCell = 100'000;
  for (const uint64_t size : {uint64_t{50'000}, kCell + 1, 2 * kCell + 70'000, 7 * kCell + 16'385}) {
    const Bytes object = random_bytes(size, random);
    const Slices whole({4, 2, kCell, size}, coder, object);
    for (const std::vector<unsigned>& lost :
         std::vector<std::vector<unsigned>>{{0, 1}, {0, 5}, {1, 3}, {3, 2}}) {
      std::vector<unsigned> present;
      for (unsigned slot = 0; slot < 6; ++slot) {
        if (std::ranges::find(lost, slot) == lost.end()) present.push_back(slot);
      }
      Slices rebuilt = whole;
      ASSERT_TRUE(rebuilt.lose_and_rebuild(coder, present, lost));
      ASSERT_EQ(rebuilt.slots, whole.slots) << size;
    }
  }
}

TEST(StripeTest, TheWidestCodeMakesGoodAsManyLossesAsItHasParity) {
  Random random(8);
  const Coder coder(kMaxDataSlices, kMaxParitySlices);
  const Layout layout{kMaxDataSlices, kMaxParitySlices, 100, 40 * 100 + 3};
  const Slices whole(layout, coder, random_bytes(layout.size, random));
  std::vector<unsigned> lost;
  std::vector<unsigned> present;
  for (unsigned slot = 0; slot < kMaxDataSlices + kMaxParitySlices; ++slot)
    (slot < kMaxParitySlices ? lost : present).push_back(slot);
  Slices rebuilt = whole;
  ASSERT_TRUE(rebuilt.lose_and_rebuild(coder, present, lost));
  EXPECT_EQ(rebuilt.slots, whole.slots);
}

TEST(StripeTest, WithOneDataSliceEverySliceIsACopy) {
  Random random(9);
  const Bytes object = random_bytes(1234, random);
  const Slices slices({1, 3, 100, object.size()}, Coder(1, 3), object);
  for (const Bytes& slice : slices.slots) EXPECT_EQ(slice, object);
}

TEST(StripeTest, AStretchOfTheCellsIsDecodedAlone) {
  Random random(10);
  const Coder coder(4, 2);
  Slices slices({4, 2, 1000, 4000}, coder, random_bytes(4000, random));
  const std::vector<unsigned> present = {5, 1, 3, 0};
  const std::vector<unsigned> wanted = {2};
  const Decoding decoding = Decoding::make(coder, present, wanted).take();
  std::vector<Cell> cells;
  for (const unsigned slot : decoding.sources()) cells.push_back(slices.space(0, slot).subspan(333, 50));
  Bytes found(50);
  const std::vector<CellSpace> into = {found};
  decoding.run(cells, into);
  EXPECT_TRUE(std::ranges::equal(found, slices.space(0, 2).subspan(333, 50)));
}

// The field of 256 elements over x^8 + x^4 + x^3 + x^2 + 1, without tables.
unsigned multiply_slowly(unsigned a, unsigned b) {
  unsigned product = 0;
  for (; b != 0; b >>= 1) {
    if ((b & 1) != 0) product ^= a;
    a = (a << 1) ^ ((a & 0x80) != 0 ? 0x11dU : 0U);
  }
  return product;
}

unsigned invert_slowly(unsigned a) {
  unsigned inverse = 1;
  while (multiply_slowly(a, inverse) != 1) ++inverse;
  return inverse;
}

// What is stored must be readable by every later version: the code may never become another one.
TEST(StripeTest, ParityIsTheSumOfCellsOverSlotXorSlot) {
  Random random(11);
  const Coder coder(4, 2);
  Slices slices({4, 2, 64, 150}, coder, random_bytes(150, random));
  for (unsigned parity = 4; parity < 6; ++parity) {
    for (size_t at = 0; at < 64; ++at) {
      unsigned sum = 0;
      for (unsigned slot = 0; slot < 4; ++slot) {
        const CellSpace cell = slices.space(0, slot);
        if (at >= cell.size()) continue;  // as if it were zero
        sum ^= multiply_slowly(static_cast<unsigned>(cell[at]), invert_slowly(parity ^ slot));
      }
      ASSERT_EQ(static_cast<unsigned>(slices.space(0, parity)[at]), sum) << parity << " " << at;
    }
  }
}

TEST(StripeTest, CodesBeyondTheLimitsAreRefused) {
  EXPECT_TRUE(check_code(1, 0));
  EXPECT_TRUE(check_code(kMaxDataSlices, kMaxParitySlices));
  EXPECT_FALSE(check_code(0, 2));
  EXPECT_FALSE(check_code(kMaxDataSlices + 1, 0));
  const auto refused = check_code(4, kMaxParitySlices + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_EQ(refused.error().message(), "there is no code 4+17");
}

}  // namespace
}  // namespace millrace::cluster
