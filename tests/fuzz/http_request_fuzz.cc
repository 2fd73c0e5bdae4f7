// Request heads of any bytes: what is taken can be read in one way only, and the parser is stable when
// reused.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "net/http.h"

namespace {

using namespace millrace::net;

void check(const RequestHead& head, std::string_view bytes) {
  const auto inside = [&](std::string_view view) {
    return view.empty() ||
           (view.data() >= bytes.data() && view.data() + view.size() <= bytes.data() + bytes.size()) ||
           view == "/";
  };
  MR_ASSERT(!head.method.empty() && inside(head.method));
  MR_ASSERT(!head.path.empty() && inside(head.path) && inside(head.query));
  MR_ASSERT(head.path[0] == '/' || head.path == "*");
  MR_ASSERT(!(head.chunked && head.content_length));
  MR_ASSERT(head.headers.size() <= kMaxHeaders);
  for (const HeaderView& header : head.headers) {
    MR_ASSERT(!header.name.empty() && inside(header.name) && inside(header.value));
    MR_ASSERT(header.name.find_first_of(" \t\r\n:") == std::string_view::npos);
    MR_ASSERT(header.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
    MR_ASSERT(head.find(header.name).has_value());
  }
  for (const char c : head.target) MR_ASSERT(static_cast<unsigned char>(c) > ' ' && c != 0x7f);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  RequestHead fresh;
  RequestHead used;
  const bool warmed =
      parse_request("PUT /x?y HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", used)
          .has_value();
  MR_ASSERT(warmed);
  const auto end = find_head_end(text);
  const std::string_view bytes = end ? text.substr(0, *end) : text;
  const auto first = parse_request(bytes, fresh);
  const auto second = parse_request(bytes, used);
  MR_ASSERT(first.has_value() == second.has_value());
  if (!first) return 0;
  check(fresh, bytes);
  check(used, bytes);
  MR_ASSERT(fresh.method == used.method && fresh.path == used.path && fresh.query == used.query);
  MR_ASSERT(fresh.keep_alive == used.keep_alive && fresh.chunked == used.chunked &&
            fresh.expects_continue == used.expects_continue);
  MR_ASSERT(fresh.content_length == used.content_length && fresh.headers.size() == used.headers.size());
  return 0;
}
