// Installation: a typed description of what is there or to be bought, and of the training that runs on it.
//
// Read from TOML: [workload], [[store]], [[switch]], [[cpu]], [[gpu]], [part.NAME], [simulate]. Everything
// that can be wrong about it alone is an error here, with line and column; whether it is fast enough is not.
#pragma once

#include <string>
#include <vector>

#include "plan/catalogue.h"

namespace millrace::plan {

enum class Access { kSequential, kRandom };
enum class Shuffle { kGlobal, kLocal, kPartial };

struct Redundancy {
  uint64_t data = 1;    // slices that hold the data; copies: 1
  uint64_t parity = 0;  // slices or copies more
  bool is_coded() const { return data > 1; }
  // Bytes stored for each byte of data.
  Rational overhead() const { return Rational(data + parity, data); }
};
Result<Redundancy> parse_redundancy(std::string_view text);  // none, copies=2, ec=8+2

struct Workload {
  uint64_t sample = 0;   // bytes as stored
  uint64_t decoded = 0;  // bytes as the GPU gets them
  uint64_t samples = 0;
  uint64_t shard = 0;  // bytes
  uint64_t epochs = 1;
  Access access = Access::kSequential;
  Shuffle shuffle = Shuffle::kGlobal;
  Rational fraction = 0;  // exchanged each epoch, with partial
  Redundancy redundancy;
  uint64_t ingest = 0;    // new data written meanwhile, a second
  uint64_t recovery = 0;  // lost data rebuilt meanwhile, a second
  std::string place;      // in the file

  bool is_decoded() const { return decoded != sample; }
  Rational dataset() const { return Rational(samples) * sample; }
};

struct Links {  // of one machine
  Part part;
  uint64_t count = 0;  // 0: no limit is known
};

struct Store {
  std::string name;
  uint64_t machines = 1;
  Part drive;
  uint64_t drives = 1;  // in each machine
  Links interface;
  std::string switch_name;  // empty: the one network
  std::string at;           // the [[gpu]] machines whose local drives these are; empty: machines of their own
  bool replicated = false;  // local drives: each machine has everything
  Rational price = 0;       // of a machine without drives and interfaces
  std::string place;        // in the file
};

struct Switch {
  std::string name;
  uint64_t rate = 0;  // all it passes; 0: no limit
  std::string uplink_to;
  Links uplink;
  Rational oversubscription = 0;  // instead of uplinks: what is below over what leads up
  Rational price = 0;
  std::string place;
};

struct Machines {  // with CPUs, or with GPUs
  std::string name;
  uint64_t machines = 1;
  uint64_t cores = 0;  // in each, for decoding
  Part core;
  Links interface;
  std::string switch_name;
  uint64_t memory_rate = 0;  // 0: no limit
  uint64_t ram = 0;          // 0: not known
  Links bus;                 // between everything and the processor
  uint64_t gpus = 0;
  Part gpu;
  Links link;  // to one GPU
  Rational price = 0;
  std::string place;
};

struct Simulated {
  uint64_t readers = 32;                // shards open at once, each machine
  uint64_t ahead = 4;                   // windows asked for ahead, each reader
  uint64_t window = 4 << 20;            // bytes read at once
  uint64_t buffer = uint64_t{8} << 30;  // bytes held, each machine
  uint64_t slow_drives = 0;
  Rational slow_to = Rational(1, 10);  // of their rate
  uint64_t seed = 1;
};

struct Installation {
  std::string name;
  Workload workload;
  std::vector<Store> stores;
  std::vector<Switch> switches;
  std::vector<Machines> cpus;  // a tier of its own that decodes; empty: the GPU machines decode
  std::vector<Machines> gpus;
  Simulated simulated;

  uint64_t gpu_count() const;
};

Result<Installation> read_installation(const TomlDocument& document);

}  // namespace millrace::plan
