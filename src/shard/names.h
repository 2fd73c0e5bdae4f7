// Names of shard sets: what a person types, expanded to the files meant, and numbered output names.
//
//   train-{000000..001281}.tar   a range, zero-padded as written      {train,val}-0.tar   a list
//   train-@001282.tar            a count: 000000 to 001281            a.tar::b.tar        a union
//   data/*.tar                   a glob, sorted                       out-%06d.tar        a numbered output
//
// Names may be addresses (http, mr, s3). Pure except for "~", which is looked up, and for globs, which look
// at the file system or ask the store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transfer/stores.h"

namespace millrace::shard {

// No specification names more shards than this.
inline constexpr uint64_t kMaxNames = 10'000'000;

// A path or an address that can be opened: "~/x" and "~user/x" below that home, "file:///x" as /x. An address
// of another kind (gs, ftp, …) is refused with a hint on what can be done instead.
Result<std::string> plain_name(std::string_view name);

// Without stores, a glob in an address is an error.
Result<std::vector<std::string>> expand_names(std::string_view specification,
                                              transfer::Stores* stores = nullptr);
Result<std::vector<std::string>> expand_names(const std::vector<std::string>& specifications,
                                              transfer::Stores* stores = nullptr);
// Ranges and lists alone, for addresses of single objects: "photo@2x.png" and "a::b" are keys.
Result<std::vector<std::string>> expand_braces(std::string_view address);

class OutputName {
 public:
  // At most one %d or %0Nd; other percent signs are written %%.
  static Result<OutputName> parse(std::string_view pattern);

  bool numbered() const { return numbered_; }
  std::string at(uint64_t number) const;

 private:
  std::string before_;
  std::string after_;
  bool numbered_ = false;
  int width_ = 0;
};

}  // namespace millrace::shard
