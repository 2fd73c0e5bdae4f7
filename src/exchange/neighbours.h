// Neighbours: the ranks of one machine whose segments this rank maps and copies from, instead of being sent.
//
// One copy by the processor from where a sample lies to where it stays, without the sender's help, is faster
// than any message. Whether it can be done is found out by trying: a rank counts as a neighbour where its
// directory, by the path and the identity it says, can be opened here. Mappings are kept from one exchange to
// the next, because making them costs more than copying small samples. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/result.h"
#include "exchange/group.h"

namespace millrace::exchange {

class Neighbours {
 public:
  // All ranks call it, each with the directory of its store.
  static Result<std::shared_ptr<Neighbours>> meet(Group& group, const std::string& directory,
                                                  const Patience& patience);

  // Whether this rank takes from that one by itself, and that one from this.
  bool reads(uint32_t rank) const { return directories_.contains(rank); }
  bool is_read_by(uint32_t rank) const { return readers_.contains(rank); }

  // Lets go of segments that their rank removed: they would take up space.
  void forget_removed();
  Status open(uint32_t rank, uint32_t segment);
  // Of a segment that was opened; valid until forget_removed().
  std::string_view segment(uint32_t rank, uint32_t number) const;

 private:
  // The mapping keeps the file, so that no other can have its identity; a descriptor each would be too many.
  struct Mapped {
    FileIdentity identity;
    MappedFile memory;
  };
  std::string path_of(uint32_t rank, uint32_t segment) const;

  std::map<uint32_t, std::string> directories_;  // of ranks that are read
  std::set<uint32_t> readers_;
  std::map<std::pair<uint32_t, uint32_t>, Mapped> segments_;  // by rank and number
};

}  // namespace millrace::exchange
