// Offsets of cells, and ISA-L's Reed–Solomon over a Cauchy matrix.
#include "cluster/stripe.h"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <array>

#include "base/assert.h"

namespace millrace::cluster {

namespace {

constexpr unsigned kMaxSlices = kMaxDataSlices + kMaxParitySlices;
constexpr size_t kTableBytes = 32;         // of one factor, says ISA-L
constexpr uint64_t kMostAtOnce = 1 << 30;  // ISA-L counts in int
// Where a cell has ended zeroes stand in for its bytes, so many at a time.
constexpr size_t kPadding = 16 << 10;
constexpr std::array<unsigned char, kPadding> kZeroes{};

// ISA-L takes pointers to what it only reads, too.
unsigned char* bytes_of(const std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes));
}

std::vector<unsigned char> make_tables(unsigned k, std::span<const unsigned char> rows) {
  const size_t count = rows.size() / k;
  std::vector<unsigned char> tables(rows.size() * kTableBytes);
  if (count == 0) return tables;
  ec_init_tables(static_cast<int>(k), static_cast<int>(count), const_cast<unsigned char*>(rows.data()),
                 tables.data());
  return tables;
}

// Every target is the sum of the sources times the factors of its row. Sources that have ended are zero; what
// a target would get behind its end is thrown away.
void multiply(const std::vector<unsigned char>& tables, std::span<const Cell> sources,
              std::span<const CellSpace> targets) {
  uint64_t length = 0;
  for (const CellSpace& target : targets) length = std::max<uint64_t>(length, target.size());
  std::array<unsigned char*, kMaxSlices> from;
  std::array<unsigned char*, kMaxSlices> to;
  std::array<unsigned char, kPadding> thrown_away;
  for (uint64_t at = 0; at < length;) {
    uint64_t end = std::min(length, at + kMostAtOnce);
    const auto stop_at = [&](uint64_t size) {
      end = std::min(end, size > at ? size : at + kPadding);
      return size > at;
    };
    for (size_t i = 0; i < sources.size(); ++i) {
      const bool goes_on = stop_at(sources[i].size());
      from[i] = goes_on ? bytes_of(sources[i].data() + at) : const_cast<unsigned char*>(kZeroes.data());
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      const bool goes_on = stop_at(targets[i].size());
      to[i] = goes_on ? bytes_of(targets[i].data() + at) : thrown_away.data();
    }
    ec_encode_data(static_cast<int>(end - at), static_cast<int>(sources.size()),
                   static_cast<int>(targets.size()), const_cast<unsigned char*>(tables.data()), from.data(),
                   to.data());
    at = end;
  }
}

// Of a code with k = 1. A Cauchy matrix would give every copy another factor.
void copy(Cell source, std::span<const CellSpace> targets) {
  for (const CellSpace& target : targets) {
    MR_ASSERT(target.size() == source.size(), target.size(), source.size());
    std::ranges::copy(source, target.begin());
  }
}

}  // namespace

Status check_code(unsigned k, unsigned m) {
  if (k >= 1 && k <= kMaxDataSlices && m <= kMaxParitySlices) return {};
  return make_error(Code::kInvalid, "there is no code {}+{}", k, m)
      .with_hint(fmt::format("k+m: 1 to {} data slices and 0 to {} parity slices", kMaxDataSlices,
                             kMaxParitySlices));
}

uint64_t Layout::cell_size(uint64_t stripe, unsigned slot) const {
  MR_ASSERT(slot < k + m, slot, k, m);
  const uint64_t number = stripe * k + (slot < k ? slot : 0);  // the first cell of a stripe is the longest
  const uint64_t begin = number * cell;
  return begin < size ? std::min(cell, size - begin) : 0;
}

uint64_t Layout::slice_size(unsigned slot) const {
  if (size == 0) return 0;
  const uint64_t last = stripes() - 1;
  return cell_offset(last) + cell_size(last, slot);
}

Layout::Stretch Layout::locate(uint64_t offset) const {
  MR_ASSERT(offset < size, offset, size);
  if (k == 1) return {0, offset, size - offset};
  const uint64_t number = offset / cell;
  const uint64_t inside = offset % cell;
  return {static_cast<unsigned>(number % k), cell_offset(number / k) + inside,
          std::min(cell - inside, size - offset)};
}

uint64_t Layout::offset_of(const Stretch& stretch) const {
  if (k == 1) return stretch.offset;
  return stretch.offset / cell * stripe_bytes() + stretch.slot * cell + stretch.offset % cell;
}

Coder::Coder(unsigned k, unsigned m) : k_(k), m_(m), matrix_(size_t{k} * (k + m)) {
  MR_ASSERT(check_code(k, m).has_value(), k, m);
  gf_gen_cauchy1_matrix(matrix_.data(), static_cast<int>(k + m), static_cast<int>(k));
  tables_ = make_tables(k, std::span(matrix_).subspan(size_t{k} * k));
}

void Coder::encode(std::span<const Cell> cells, std::span<const CellSpace> parity) const {
  MR_ASSERT(cells.size() == k_ && parity.size() == m_, cells.size(), parity.size());
  size_t longest = 0;
  for (const Cell& cell : cells) longest = std::max(longest, cell.size());
  for (const CellSpace& cell : parity) MR_ASSERT(cell.size() == longest, cell.size(), longest);
  if (k_ == 1) return copy(cells[0], parity);
  multiply(tables_, cells, parity);
}

Result<Decoding> Decoding::make(const Coder& coder, std::span<const unsigned> present,
                                std::span<const unsigned> wanted) {
  const size_t k = coder.k_;
  const size_t slices = k + coder.m_;
  std::array<bool, kMaxSlices> seen{};
  for (const unsigned slot : present) {
    MR_ASSERT(slot < slices && !seen[slot], slot, slices);
    seen[slot] = true;
  }
  if (present.size() < k)
    return make_error(Code::kUnavailable, "only {} of {} slices are there, and {} are needed", present.size(),
                      slices, k);
  Decoding decoding;
  decoding.sources_.assign(present.begin(), present.begin() + static_cast<ptrdiff_t>(k));
  decoding.targets_ = wanted.size();

  const auto row_of = [&](unsigned slot) { return std::span(coder.matrix_).subspan(slot * k, k); };
  std::vector<unsigned char> to_invert;
  for (const unsigned slot : decoding.sources_) {
    const auto row = row_of(slot);
    to_invert.insert(to_invert.end(), row.begin(), row.end());
  }
  std::vector<unsigned char> inverse(k * k);
  const int singular = gf_invert_matrix(to_invert.data(), inverse.data(), static_cast<int>(k));
  MR_ASSERT(singular == 0, k, slices);
  // A wanted slot is its row of the code, times the data slices, which are the inverse times the sources.
  std::vector<unsigned char> rows(wanted.size() * k);
  for (size_t i = 0; i < wanted.size(); ++i) {
    MR_ASSERT(wanted[i] < slices, wanted[i], slices);
    const auto row = row_of(wanted[i]);
    for (size_t column = 0; column < k; ++column) {
      for (size_t j = 0; j < k; ++j) rows[i * k + column] ^= gf_mul(row[j], inverse[j * k + column]);
    }
  }
  decoding.tables_ = make_tables(coder.k_, rows);
  return decoding;
}

void Decoding::run(std::span<const Cell> cells, std::span<const CellSpace> wanted) const {
  MR_ASSERT(cells.size() == sources_.size() && wanted.size() == targets_, cells.size(), wanted.size());
  if (sources_.size() == 1) return copy(cells[0], wanted);
  multiply(tables_, cells, wanted);
}

}  // namespace millrace::cluster
