// The catalogue: parts by name, each with its rates, where the figures come from and of when they are.
//
// A plan's own [part.NAME] tables change single figures of a known part or add new parts: what was measured
// at home counts more than what is printed here. Values; immutable once made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/toml_document.h"
#include "plan/rational.h"

namespace millrace::plan {

enum class Kind { kDrive, kLink, kCore, kGpu };
std::string_view kind_name(Kind kind);

struct Part {
  std::string name;
  Kind kind = Kind::kLink;
  uint64_t rate = 0;                // drive: read in sequence; link: each way; GPU: decoded bytes it takes in
  uint64_t random = 0;              // drive: single files at random places, shared by many readers
  uint64_t write = 0;               // drive
  uint64_t capacity = 0;            // drive; 0: not known
  uint64_t per_machine = 0;         // drive: how many a machine holds; 0: not known
  uint64_t in = 0;                  // core: stored bytes it takes in
  uint64_t out = 0;                 // core: decoded bytes it gives out
  Rational samples_per_second = 0;  // GPU: instead of a rate
  uint64_t sample = 0;              // GPU: stored bytes of a sample of that model; 0: any
  Rational price = 0;               // dollars; 0: not known
  std::string source;
  std::string date;
};

class Catalogue {
 public:
  static Result<Catalogue> standard();
  // [part.NAME] tables of a plan.
  Status add(const TomlDocument& document);

  // The error names the nearest part of that kind.
  Result<Part> get(Kind kind, std::string_view name) const;
  const std::vector<Part>& parts() const { return parts_; }

 private:
  std::vector<Part> parts_;
};

}  // namespace millrace::plan
