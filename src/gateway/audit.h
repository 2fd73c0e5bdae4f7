// Audit: who did what to which object, and how it ended. The gateway says it; the node keeps it
// (node/audit_log.h).
//
// A line is one JSON object in ASCII. Everything that a client chose (keys, names, queries) is escaped, so
// that nobody can end a line or write another one. Secrets are left out: signatures and session tokens in
// queries, and headers. Fields: docs/guide/store.md, "Audit".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace millrace::gateway {

class Call;

// Any thread; never blocks.
class Audit {
 public:
  virtual ~Audit() = default;
  // `what` is an object; time and node are added.
  virtual void note(nlohmann::ordered_json what) = 0;
};

// One of many objects of a request, with an outcome of its own.
struct TouchedObject {
  std::string key;
  int status = 200;
  std::string_view code = {};  // of the error, as S3 clients know it
};

// Probes of supervisors and messages of other nodes are no one's deeds.
bool is_audited(const Call& call);
// What the call did: one object, or one for each object that it touched. `whole`: the answer went out to its
// end.
enum class Answered : uint8_t { kWhole, kCut };
std::vector<nlohmann::ordered_json> describe(const Call& call, Answered answered, uint64_t microseconds);

// The query without the values of signatures and tokens, however their names are written.
std::string without_secrets(std::string_view query);
// The line, without its end.
std::string audit_line(const nlohmann::ordered_json& what);

}  // namespace millrace::gateway
