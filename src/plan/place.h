// place: where a data set should live between epochs, from the nearest place that holds it to the farthest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::plan {

enum class Home { kGpu, kRam, kLocal, kLocalReplicated, kLocalPartitioned, kDistributed };
std::string_view home_name(Home home);  // gpu, ram, local, local-replicated, local-partitioned, distributed

// What can be spared for data. The defaults are the field's usual machines.
struct PlaceRequest {
  uint64_t dataset = 0;  // bytes as kept there
  uint64_t nodes = 8;
  uint64_t gpu_memory = 8'000'000'000;  // of one GPU
  uint64_t ram = 128'000'000'000;       // of one node
  uint64_t local = 32'000'000'000'000;  // drives of one node; 0: none
};

struct Candidate {
  Home home = Home::kDistributed;
  uint64_t room = 0;  // the largest data set that may live there; 0: any, or none where it does not fit
  bool fits = false;
  std::string reason;
};

struct Placement {
  Home home = Home::kDistributed;
  std::vector<Candidate> candidates;  // nearest first, all of them
  const Candidate& chosen() const;
};

Placement place(const PlaceRequest& request);

}  // namespace millrace::plan
