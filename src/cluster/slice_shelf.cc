// Ledgers and promises on their way to the drives.
#include "cluster/slice_shelf.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "net/digest.h"
#include "store/coding.h"
#include "store/on_workers.h"
#include "store/waiting.h"

namespace millrace::cluster {

std::string slice_name(std::string_view write_id, unsigned slot, DriveId drive) {
  return fmt::format("{}.{}@{:016x}", net::to_hex(write_id), slot, drive);
}

Result<std::unique_ptr<SliceShelf>> SliceShelf::open(Strand& strand, store::Slices& slices, Workers& workers,
                                                     Options options) {
  std::unique_ptr<SliceShelf> shelf(new SliceShelf(strand, slices, workers, std::move(options)));
  if (!file_exists(shelf->options_.promise_file)) return shelf;
  constexpr uint64_t kMostBytes = 64;
  const std::string text = MR_TRY(read_file(shelf->options_.promise_file, kMostBytes));
  const auto epoch = parse_number<uint32_t>(trim(text, " \t\n"));
  if (!epoch) return make_error(Code::kCorrupt, "{} does not hold an epoch", shelf->options_.promise_file);
  shelf->promised_ = *epoch;
  return shelf;
}

template <typename T>
void SliceShelf::run(std::function<Result<T>()> work, Done<T> done) {
  const auto kept = std::make_shared<Done<T>>(std::move(done));
  store::run_on<T>(workers_, std::move(work), [this, kept](Result<T> result) {
    const auto shared = std::make_shared<Result<T>>(std::move(result));
    strand_.post([kept, shared] { (*kept)(std::move(*shared)); });
  });
}

bool SliceShelf::in_service(DriveId drive) const {
  return slices_.in_service(drive);
}

void SliceShelf::read(DriveId drive, const ObjectName& name, Done<Ledger> done) {
  run<Ledger>(
      [this, drive, name]() -> Result<Ledger> {
        const auto found = MR_TRY(slices_.find_ledger(drive, name.bucket, name.key));
        if (!found) return Ledger();
        store::Decoder in(*found);
        return decode_ledger(in).within(fmt::format("{}/{}", name.bucket, name.key));
      },
      std::move(done));
}

void SliceShelf::write(DriveId drive, const ObjectName& name, const Ledger& ledger, Haste haste,
                       Done<void> done) {
  store::Encoder out;
  if (!ledger.is_empty()) encode_ledger(out, ledger);
  const store::Sync sync = haste == Haste::kDurable ? store::Sync::kYes : store::Sync::kNo;
  run<void>([this, drive, name, bytes = std::move(out).take(),
             sync] { return slices_.write_ledger(drive, name.bucket, name.key, bytes, sync); },
            std::move(done));
}

void SliceShelf::list(DriveId drive, const ObjectName& after, size_t limit, Done<std::vector<Row>> done) {
  run<std::vector<Row>>(
      [this, drive, after, limit]() -> Result<std::vector<Row>> {
        std::vector<Row> rows;
        for (store::Slices::LedgerRow& row :
             MR_TRY(slices_.walk_ledgers(drive, after.bucket, after.key, limit))) {
          store::Decoder in(row.value);
          ObjectName name{std::move(row.bucket), std::move(row.key)};
          const std::string shown = fmt::format("{}/{}", name.bucket, name.key);
          rows.push_back({std::move(name), MR_TRY(decode_ledger(in).within(shown))});
        }
        return rows;
      },
      std::move(done));
}

void SliceShelf::put_slice(DriveId drive, const store::Spread& spread, std::string bytes, Done<void> done) {
  run<void>(
      [this, drive, spread, bytes = std::move(bytes)]() -> Status {
        const auto writer =
            MR_TRY(slices_.put(drive, slice_name(spread.write_id, spread.slot, drive), bytes.size()));
        MR_TRY(store::fill(*writer, bytes));
        MR_TRY(store::wait_for<store::ObjectPointer>(
            [&](Done<store::ObjectPointer> finished) { writer->finish({}, std::move(finished)); }));
        return {};
      },
      std::move(done));
}

bool SliceShelf::is_dropped(DriveId drive, const store::Spread& spread) const {
  return slices_.is_doomed(slice_name(spread.write_id, spread.slot, drive));
}

void SliceShelf::drop_slice(DriveId drive, const store::Spread& spread) {
  const std::string name = slice_name(spread.write_id, spread.slot, drive);
  slices_.doom(name);
  strand_.after(options_.keep_replaced_us, [this, name] { slices_.remove_doomed(name); });
}

void SliceShelf::promise(uint32_t epoch, Done<void> done) {
  run<void>(
      [this, epoch]() -> Status {
        // One at a time: an older promise must not be written over a newer one.
        const MutexLock lock(promising_);
        if (epoch <= promised_) return {};
        MR_TRY(write_file_atomically(options_.promise_file, fmt::format("{}\n", epoch)));
        promised_ = epoch;
        return {};
      },
      std::move(done));
}

}  // namespace millrace::cluster
