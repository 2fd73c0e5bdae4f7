// SliceShelf: the protocol's drives, on the store of this machine.
//
// Ledgers are read and written by workers, so that the strand never waits for a drive; RocksDB makes one
// flush of many. The promised epoch is a file of the node. Thread-safe where Shelf is not bound to the
// strand.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "base/workers.h"
#include "cluster/peers.h"
#include "store/slices.h"

namespace millrace::cluster {

// The local name of a slice. It has the drive in it, because a move may bring the same slice to another drive
// of this node before the first one lets it go.
std::string slice_name(std::string_view write_id, unsigned slot, DriveId drive);

class SliceShelf final : public Shelf {
 public:
  struct Options {
    std::string promise_file;                // keeps the promised epoch
    uint64_t keep_replaced_us = 60'000'000;  // a slice that was replaced stays readable for so long
  };
  static Result<std::unique_ptr<SliceShelf>> open(Strand& strand, store::Slices& slices, Workers& workers,
                                                  Options options);

  bool in_service(DriveId drive) const override;
  void read(DriveId drive, const ObjectName& name, Done<Ledger> done) override;
  void write(DriveId drive, const ObjectName& name, const Ledger& ledger, Haste haste,
             Done<void> done) override;
  void list(DriveId drive, const ObjectName& after, size_t limit, Done<std::vector<Row>> done) override;
  void put_slice(DriveId drive, const store::Spread& spread, std::string bytes, Done<void> done) override;
  void drop_slice(DriveId drive, const store::Spread& spread) override;
  bool is_dropped(DriveId drive, const store::Spread& spread) const override;
  uint32_t promised() const override { return promised_; }
  void promise(uint32_t epoch, Done<void> done) override;

 private:
  SliceShelf(Strand& strand, store::Slices& slices, Workers& workers, Options options)
      : strand_(strand), slices_(slices), workers_(workers), options_(std::move(options)) {}
  // Runs on a worker, answers on the strand.
  template <typename T>
  void run(std::function<Result<T>()> work, Done<T> done);

  Strand& strand_;
  store::Slices& slices_;
  Workers& workers_;
  const Options options_;
  Mutex promising_;
  std::atomic<uint32_t> promised_ = 0;  // changed with the mutex held
};

}  // namespace millrace::cluster
