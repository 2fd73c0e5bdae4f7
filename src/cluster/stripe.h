// Stripes: how an object is cut into slices, and the arithmetic that brings lost slices back.
//
// An object is cut into cells. Cell n belongs to data slice n mod k; k cells in a row are a stripe. Each
// stripe also has m parity cells, so an object has k + m slices, numbered by slot: data 0 to k-1, then
// parity. A slice is its cells end to end. Any k slices give the object (Reed–Solomon; data slices are the
// object's own bytes).
//
// The last stripe may be short: its cells are shorter or empty. The code sees zeroes up to its longest cell,
// and its parity cells are as long as that one. With k = 1 every slice is a copy.
//
// Pure: no I/O, no threads. Everything here is immutable once made and may be used by many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace millrace::cluster {

inline constexpr unsigned kMaxDataSlices = 32;
inline constexpr unsigned kMaxParitySlices = 16;
inline constexpr uint64_t kCellBytes = 1 << 20;  // unless something else is said

// Whether there is a code of k data and m parity slices: for numbers that come from outside.
Status check_code(unsigned k, unsigned m);

// Where the bytes of one object lie. k and m pass check_code(); cell is not 0.
struct Layout {
  unsigned k = 1;
  unsigned m = 0;
  uint64_t cell = kCellBytes;
  uint64_t size = 0;  // of the object

  // How many bytes of an object one stripe holds, if it is not the last.
  uint64_t stripe_bytes() const { return k * cell; }
  uint64_t stripes() const { return (size + stripe_bytes() - 1) / stripe_bytes(); }
  // Where the stripe's cell begins in its slice: the same in all of them, because only the last is short.
  uint64_t cell_offset(uint64_t stripe) const { return stripe * cell; }
  uint64_t cell_size(uint64_t stripe, unsigned slot) const;
  uint64_t slice_size(unsigned slot) const;

  // Bytes of the object that lie one after another in one data slice.
  struct Stretch {
    unsigned slot = 0;
    uint64_t offset = 0;  // in the slice
    uint64_t size = 0;
    bool operator==(const Stretch&) const = default;
  };
  // The longest one that begins at this byte of the object. `offset` is below the size.
  Stretch locate(uint64_t offset) const;
  // Where a stretch begins in the object.
  uint64_t offset_of(const Stretch& stretch) const;
};

using Cell = std::span<const std::byte>;
using CellSpace = std::span<std::byte>;

// The code of k data and m parity slices. Makes its tables once.
class Coder {
 public:
  Coder(unsigned k, unsigned m);

  unsigned k() const { return k_; }
  unsigned m() const { return m_; }

  // The parity of one stripe, or of the same stretch of all its cells. `cells` are the data, by slot; the
  // shorter ones count as filled up with zeroes. All of `parity` is as long as the longest of them.
  void encode(std::span<const Cell> cells, std::span<const CellSpace> parity) const;

 private:
  friend class Decoding;
  const unsigned k_;
  const unsigned m_;
  std::vector<unsigned char> matrix_;  // a row of k factors per slot
  std::vector<unsigned char> tables_;  // of the parity rows, as ISA-L wants them
};

// Brings lost slots back from others: made once for a set of slots, used for every stripe.
class Decoding {
 public:
  // Takes the first k of `present`, so those that are cheapest to read come first. No slot is there twice.
  // kUnavailable: there are fewer than k.
  static Result<Decoding> make(const Coder& coder, std::span<const unsigned> present,
                               std::span<const unsigned> wanted);

  // The k slots that run() needs.
  const std::vector<unsigned>& sources() const { return sources_; }

  // One stripe, or the same stretch of all its cells. `cells` are of sources(), in that order, each as long
  // as its slot's; `wanted` are of the wanted slots, in the order they were given.
  void run(std::span<const Cell> cells, std::span<const CellSpace> wanted) const;

 private:
  std::vector<unsigned> sources_;
  size_t targets_ = 0;
  std::vector<unsigned char> tables_;
};

}  // namespace millrace::cluster
