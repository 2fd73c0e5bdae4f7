// Finds neighbours: each rank tells its path, tries those of the others and tells the outcome.
#include "exchange/neighbours.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/assert.h"
#include "exchange/manifest.h"

namespace millrace::exchange {

namespace {

using Json = nlohmann::json;

std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Result<std::shared_ptr<Neighbours>> Neighbours::meet(Group& group, const std::string& directory,
                                                     const Patience& patience) {
  auto neighbours = std::make_shared<Neighbours>();
  const FileIdentity identity = find_identity(directory).value_or(FileIdentity{});
  std::error_code failure;
  const std::string path = std::filesystem::absolute(directory, failure);
  const Json own = {{"node", MR_TRY(group.node())},
                    {"device", identity.device},
                    {"inode", identity.inode},
                    {"path", failure ? "" : path}};
  const std::vector<std::string> said = MR_TRY(gather_all(group, text_of(own), patience));
  Json read = Json::array();
  for (uint32_t rank = 0; rank < said.size(); ++rank) {
    const Json one = Json::parse(said[rank], nullptr, false);
    if (rank == group.rank() || !one.is_object() || one["node"] != own["node"]) continue;
    const auto there = find_identity(one["path"].get<std::string>());
    if (!there || one["device"] != there->device || one["inode"] != there->inode) continue;
    neighbours->directories_[rank] = one["path"].get<std::string>();
    read.push_back(rank);
  }
  const std::vector<std::string> readers = MR_TRY(gather_all(group, text_of(read), patience));
  for (uint32_t rank = 0; rank < readers.size(); ++rank) {
    const Json one = Json::parse(readers[rank], nullptr, false);
    if (!one.is_array()) return make_error(Code::kCorrupt, "rank {} talks nonsense", rank);
    if (std::ranges::find(one, Json(group.rank())) != one.end()) neighbours->readers_.insert(rank);
  }
  return neighbours;
}

void Neighbours::forget_removed() {
  std::erase_if(segments_, [&](const auto& one) {
    return find_identity(path_of(one.first.first, one.first.second)) != one.second.identity;
  });
}

Status Neighbours::open(uint32_t rank, uint32_t segment) {
  if (segments_.contains({rank, segment})) return {};
  const std::string path = path_of(rank, segment);
  Mapped mapped;
  mapped.identity = find_identity(path).value_or(FileIdentity{});
  mapped.memory = MR_TRY(MappedFile::open(path));
  segments_.emplace(std::pair(rank, segment), std::move(mapped));
  return {};
}

std::string Neighbours::path_of(uint32_t rank, uint32_t segment) const {
  return directories_.at(rank) + "/" + segment_name(segment);
}

std::string_view Neighbours::segment(uint32_t rank, uint32_t number) const {
  const auto found = segments_.find({rank, number});
  MR_ASSERT(found != segments_.end(), rank, number);
  return found->second.memory.bytes();
}

}  // namespace millrace::exchange
