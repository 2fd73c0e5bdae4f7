// Objects to files: in parallel ranges, resumed after an interruption, in place only when they are whole.
//
// Bytes go to NAME.millrace-part; beside it NAME.millrace-part.state remembers the version and which
// stretches are there. The version (entity tag) and length must be the same when it goes on. Where the store
// knows a CRC32C it is compared.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "transfer/objects.h"
#include "transfer/upload.h"

namespace millrace::transfer {

inline constexpr uint64_t kStretchBytes = 16 << 20;
// Reserved: no object is fetched to such a name, so that no object can pass for the half of another.
inline constexpr std::string_view kPartSuffix = ".millrace-part";
inline constexpr std::string_view kStateSuffix = ".millrace-part.state";
bool is_unfinished_download(std::string_view path);

Result<Transferred> download_file(const Location& object, const std::string& path,
                                  const TransferOptions& options);
// As one stream, in order; cut connections are mended. For standard output and other stores.
Result<Transferred> download_stream(const Location& object, Progress* progress,
                                    const std::function<Status(std::string_view)>& take);

}  // namespace millrace::transfer
