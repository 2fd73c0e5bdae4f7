// Checks sizing against tables of known answers, row by row: it must give exactly these counts, and a plan of
// that size must keep the GPUs busy, with none of its parts to spare.
#include <gtest/gtest.h>

#include "plan/check.h"
#include "plan/size.h"

namespace millrace::plan {
namespace {

constexpr uint64_t kMega = 1'000'000;

Part drive(uint64_t rate) {
  Part part;
  part.name = "a-drive";
  part.kind = Kind::kDrive;
  part.rate = rate;
  return part;
}

Part link(const char* name, uint64_t rate) {
  Part part;
  part.name = name;
  part.rate = rate;
  return part;
}

Part core() {
  Part part;
  part.name = "a-core";
  part.kind = Kind::kCore;
  part.in = 25 * kMega;
  part.out = 100 * kMega;
  return part;
}

Part gpu(uint64_t rate) {
  Part part;
  part.name = "a-gpu";
  part.kind = Kind::kGpu;
  part.rate = rate;
  return part;
}

SizeRequest request_for(uint64_t gpus, uint64_t drive_rate) {
  SizeRequest request;
  request.gpus = gpus;
  request.gpu = gpu(300 * kMega);
  request.drive = drive(drive_rate);
  request.link = link("a-link", 1000 * kMega);
  return request;
}

Check check_text(const std::string& text) {
  const auto document = parse_toml(text, "sized.toml").take();
  const auto plan = read_installation(document);
  EXPECT_TRUE(plan.has_value()) << (plan ? "" : plan.error().message()) << "\n" << text;
  return check(*plan).take();
}

// The size is enough, and one part less of any kind is not.
void expect_just_enough(const SizeRequest& request, const Size& size) {
  EXPECT_EQ(check_text(plan_text(request, size)).gpu_utilisation(), 1);
  for (uint64_t Size::* count : {&Size::drives, &Size::interfaces, &Size::cores}) {
    if (size.*count < 2) continue;  // none at all is another plan
    Size less = size;
    --(less.*count);
    EXPECT_LT(check_text(plan_text(request, less)).gpu_utilisation(), 1);
  }
}

// Rates in millions of bytes a second.
struct LocalRow {
  uint64_t gpus, ssds, compressed_in, cores, gpu_in;
};

TEST(TablesTest, LocalSsdWithCompressedImages) {
  for (const LocalRow& row :
       {LocalRow{1, 1, 75, 3, 300}, {4, 1, 300, 12, 1200}, {8, 2, 600, 24, 2400}, {16, 3, 1200, 48, 4800}}) {
    SCOPED_TRACE(row.gpus);
    SizeRequest request = request_for(row.gpus, 400 * kMega);
    request.core = core();
    request.compression = 4;
    const Size size = size_for(request).take();
    EXPECT_EQ(size.drives, row.ssds);
    EXPECT_EQ(size.stored, row.compressed_in * kMega);
    EXPECT_EQ(size.cores, row.cores);
    EXPECT_EQ(size.decoded, row.gpu_in * kMega);
    EXPECT_EQ(size.interfaces, 0);
    expect_just_enough(request, size);
  }
}

struct NfsRow {
  uint64_t gpus, drives, interfaces, compressed_in, cores, gpu_in;
};

TEST(TablesTest, RotationalDrivesBehindNfsWithCompressedImages) {
  for (const NfsRow& row : {NfsRow{1, 4, 1, 75, 3, 300},
                            {4, 15, 1, 300, 12, 1200},
                            {8, 30, 1, 600, 24, 2400},
                            {16, 60, 1, 1200, 48, 4800},
                            {64, 240, 1, 4800, 192, 19200},
                            {256, 960, 4, 19200, 768, 76800}}) {
    SCOPED_TRACE(row.gpus);
    SizeRequest request = request_for(row.gpus, 200 * kMega);
    request.drive.random = 20 * kMega;
    request.access = Access::kRandom;
    request.core = core();
    request.interface = link("an-interface", 5000 * kMega);
    request.compression = 4;
    const Size size = size_for(request).take();
    EXPECT_EQ(size.drives, row.drives);
    EXPECT_EQ(size.interfaces, row.interfaces);
    EXPECT_EQ(size.stored, row.compressed_in * kMega);
    EXPECT_EQ(size.cores, row.cores);
    EXPECT_EQ(size.decoded, row.gpu_in * kMega);
    expect_just_enough(request, size);
  }
}

struct UncompressedRow {
  uint64_t gpus, nfs_drives, store_drives, interfaces, gpu_in;
};

TEST(TablesTest, UncompressedDataFromNfsAndFromAnObjectStore) {
  for (const UncompressedRow& row : {UncompressedRow{1, 15, 2, 1, 300},
                                     {4, 60, 6, 1, 1200},
                                     {8, 120, 12, 1, 2400},
                                     {16, 240, 24, 1, 4800},
                                     {64, 960, 96, 4, 19200},
                                     {256, 3840, 384, 16, 76800}}) {
    SCOPED_TRACE(row.gpus);
    SizeRequest request = request_for(row.gpus, 200 * kMega);
    request.drive.random = 20 * kMega;
    request.interface = link("an-interface", 5000 * kMega);
    const Size store = size_for(request).take();
    EXPECT_EQ(store.drives, row.store_drives);
    EXPECT_EQ(store.interfaces, row.interfaces);
    EXPECT_EQ(store.decoded, row.gpu_in * kMega);
    EXPECT_EQ(store.cores, 0);
    expect_just_enough(request, store);
    request.access = Access::kRandom;
    const Size nfs = size_for(request).take();
    EXPECT_EQ(nfs.drives, row.nfs_drives);
    EXPECT_EQ(nfs.interfaces, row.interfaces);
    expect_just_enough(request, nfs);
  }
}

TEST(TablesTest, LinksOfTheCatalogueTakeThisLongForOnePetabyte) {
  struct Row {
    const char* part;
    uint64_t mega;
    const char* takes;
  };
  const Catalogue catalogue = Catalogue::standard().take();
  for (const Row& row : {Row{"pcie-40-lanes", 30'000, "9 hours"},
                         {"nvlink1", 40'000, "7 hours"},
                         {"pcie-x8", 5'000, "2 days"},
                         {"sata", 6'000, "2 days"},
                         {"infiniband-56", 6'800, "2 days"},
                         {"10GbE", 1'000, "2 weeks"}}) {
    SCOPED_TRACE(row.part);
    const Part part = catalogue.get(Kind::kLink, row.part).take();
    EXPECT_EQ(part.rate, row.mega * kMega);
    EXPECT_EQ(format_duration(Rational(1'000'000'000'000'000) / part.rate), row.takes);
  }
}

TEST(TablesTest, OtherRatesOfTheTalksAreInTheCatalogue) {
  const Catalogue catalogue = Catalogue::standard().take();
  const Part rotational = catalogue.get(Kind::kDrive, "rotational").take();
  EXPECT_EQ(rotational.rate, 200 * kMega);
  EXPECT_EQ(rotational.random, 20 * kMega);
  EXPECT_EQ(catalogue.get(Kind::kDrive, "nvme").take().rate, 3000 * kMega);
  EXPECT_EQ(catalogue.get(Kind::kDrive, "sata-ssd").take().rate, 400 * kMega);
  EXPECT_EQ(catalogue.get(Kind::kLink, "interface").take().rate, 5000 * kMega);
  EXPECT_EQ(catalogue.get(Kind::kGpu, "gpu").take().rate, 300 * kMega);
}

// 100 TB for 16 GPUs at 200 MB/s each.
SizeRequest hundred_terabytes(const char* drive_name) {
  const Catalogue catalogue = Catalogue::standard().take();
  SizeRequest request;
  request.gpus = 16;
  request.gpu = gpu(200 * kMega);
  request.drive = catalogue.get(Kind::kDrive, drive_name).take();
  request.interface = catalogue.get(Kind::kLink, "interface").take();
  request.dataset = 100 * kMega * kMega;
  return request;
}

TEST(TablesTest, AHundredTerabytesOnNvmeCostMoreAndAreFasterThanNeeded) {
  const Size size = size_for(hundred_terabytes("nvme")).take();
  EXPECT_EQ(size.price, 35'000);
  EXPECT_EQ(size.drive_rate, 300'000 * kMega);
  EXPECT_EQ(size.decoded, 3'200 * kMega);
  EXPECT_GT(size.store_machines, 1);
}

TEST(TablesTest, AHundredTerabytesOnSixteenRotationalDrivesAreJustFastEnough) {
  const SizeRequest request = hundred_terabytes("rotational");
  const Size size = size_for(request).take();
  EXPECT_EQ(size.drives, 16);
  EXPECT_EQ(size.drive_rate, 3'200 * kMega);
  EXPECT_EQ(size.price, 16 * 320);
  EXPECT_GE(size.store_machines, 1);
  EXPECT_LE(size.store_machines, 2);
  expect_just_enough(request, size);
}

}  // namespace
}  // namespace millrace::plan
