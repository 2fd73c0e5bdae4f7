// Where data lives: the field's thresholds, and their scaling to other machines.
#include "plan/place.h"

#include <gtest/gtest.h>

namespace millrace::plan {
namespace {

constexpr uint64_t kGiga = 1'000'000'000, kTera = 1000 * kGiga;

Home home_of(uint64_t dataset, uint64_t nodes = 8) {
  PlaceRequest request;
  request.dataset = dataset;
  request.nodes = nodes;
  return place(request).home;
}

TEST(PlaceTest, KeepsToTheThresholdsOfTheField) {
  EXPECT_EQ(home_of(0), Home::kGpu);
  EXPECT_EQ(home_of(8 * kGiga - 1), Home::kGpu);
  EXPECT_EQ(home_of(8 * kGiga), Home::kRam);
  EXPECT_EQ(home_of(128 * kGiga - 1), Home::kRam);
  EXPECT_EQ(home_of(128 * kGiga), Home::kLocalReplicated);
  EXPECT_EQ(home_of(32 * kTera), Home::kLocalReplicated);
  EXPECT_EQ(home_of(32 * kTera + 1), Home::kLocalPartitioned);
  EXPECT_EQ(home_of(240 * kTera), Home::kLocalPartitioned);
  EXPECT_EQ(home_of(240 * kTera + 1), Home::kDistributed);
}

TEST(PlaceTest, OneNodeHasNobodyToShareWith) {
  EXPECT_EQ(home_of(32 * kTera, 1), Home::kLocal);
  EXPECT_EQ(home_of(33 * kTera, 1), Home::kDistributed);
}

TEST(PlaceTest, WithoutLocalDrivesEverythingLargeIsDistributed) {
  PlaceRequest request;
  request.dataset = kTera;
  request.local = 0;
  EXPECT_EQ(place(request).home, Home::kDistributed);
}

TEST(PlaceTest, ThresholdsFollowTheMachine) {
  PlaceRequest request;
  request.dataset = 150 * kGiga;
  request.ram = 2 * kTera;
  EXPECT_EQ(place(request).home, Home::kRam);
  request.gpu_memory = 160 * kGiga;
  EXPECT_EQ(place(request).home, Home::kGpu);
}

TEST(PlaceTest, EveryCandidateHasItsReason) {
  PlaceRequest request;
  request.dataset = 150 * kGiga;
  const Placement placement = place(request);
  ASSERT_EQ(placement.candidates.size(), 5U);
  for (const Candidate& one : placement.candidates) EXPECT_FALSE(one.reason.empty());
  EXPECT_NE(placement.candidates[1].reason.find("lower precision"), std::string::npos);
  EXPECT_NE(placement.candidates[1].reason.find("8 nodes together"), std::string::npos);
}

TEST(PlaceTest, HugeFiguresDoNotOverflow) {
  PlaceRequest request;
  request.dataset = UINT64_MAX;
  request.local = UINT64_MAX / 2;
  request.nodes = UINT64_MAX / 2;
  EXPECT_EQ(place(request).home, Home::kLocalPartitioned);
}

}  // namespace
}  // namespace millrace::plan
