// Our HTTP clients and libcurl, asking the same server in the same way; bench/http_client.py drives it.
//
//   http_client_bench ours|curl get URL SECONDS CONNECTIONS     keep-alive GETs of one thread: one after the
//                                                               other (Client, easy) or at once (AsyncClient,
//                                                               multi)
//   http_client_bench ours|curl put URL SECONDS FILE            PUTs of a file, one after the other
//
// Prints one line of JSON: requests, bytes of bodies, seconds, and this process' CPU seconds.
#include <curl/curl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/async_client.h"
#include "net/client.h"
#include "net/pause.h"

namespace {

using namespace millrace;

constexpr long kBuffer = net::kReadBytes;  // for both, where there is a choice

struct Tally {
  uint64_t requests = 0;
  uint64_t bytes = 0;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "http_client_bench: %s\n", what.c_str());
  std::exit(1);
}

template <typename T>
T must(Result<T> result) {
  if (!result) fail(result.error().message());
  return result.take();
}

net::Request make_request(const char* method, const std::string& url) {
  net::Request request;
  request.method = method;
  request.url = must(net::parse_url(url));
  return request;
}

net::ClientOptions options_with(const std::string& url) {
  net::ClientOptions options;
  if (url.starts_with("https")) options.verify = net::Verify::kInsecure;
  return options;
}

Tally get_one_by_one(const std::string& url, uint64_t until_us) {
  const auto client = must(net::Client::make(options_with(url)));
  const net::Request request = make_request("GET", url);
  std::vector<std::byte> buffer(kBuffer);
  Tally tally;
  while (steady_us() < until_us) {
    net::Response response = must(client->call(request));
    while (const size_t got = must(response.read_some(buffer))) tally.bytes += got;
    ++tally.requests;
  }
  return tally;
}

struct Crowd {
  net::Loop loop;
  size_t left = 0;
  Tally tally;
};

net::Task<void> get_again_and_again(Crowd* crowd, net::AsyncClient* client, std::string url,
                                    uint64_t until_us) {
  const net::Request request = make_request("GET", url);
  std::vector<std::byte> buffer(kBuffer);
  while (steady_us() < until_us) {
    auto response = co_await client->call(request);
    if (!response) fail(response.error().message());
    while (true) {
      auto got = co_await response->read_some(buffer);
      if (!got) fail(got.error().message());
      if (*got == 0) break;
      crowd->tally.bytes += *got;
    }
    ++crowd->tally.requests;
  }
  if (--crowd->left == 0) crowd->loop.stop();
}

Tally get_at_once(const std::string& url, uint64_t until_us, size_t connections) {
  net::Resolver resolver(1);
  std::unique_ptr<net::AsyncClient> client;
  Crowd crowd;
  const net::ClientOptions options = options_with(url);
  client = std::make_unique<net::AsyncClient>(crowd.loop, resolver, options,
                                              must(net::ClientTls::make(options.verify, "")));
  crowd.left = connections;
  for (size_t i = 0; i < connections; ++i)
    crowd.loop.spawn(get_again_and_again(&crowd, client.get(), url, until_us));
  crowd.loop.run();
  return crowd.tally;
}

Tally put_file(const std::string& url, uint64_t until_us, const std::string& path) {
  const auto client = must(net::Client::make(options_with(url)));
  const File file = must(File::open_read(path));
  net::Request request = make_request("PUT", url);
  request.body = net::FileRange{&file, 0, must(file.size())};
  Tally tally;
  while (steady_us() < until_us) {
    net::Response response = must(client->call(request));
    response.finish();
    ++tally.requests;
    tally.bytes += net::body_size(request.body);
  }
  return tally;
}

size_t count_bytes(char*, size_t size, size_t count, void* tally) {
  static_cast<Tally*>(tally)->bytes += size * count;
  return size * count;
}

CURL* make_easy(const std::string& url, Tally* tally) {
  CURL* easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_bytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, tally);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kBuffer);
  curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, 60L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  return easy;
}

void perform(CURL* easy) {
  const CURLcode code = curl_easy_perform(easy);
  if (code != CURLE_OK) fail(curl_easy_strerror(code));
}

Tally curl_one_by_one(const std::string& url, uint64_t until_us) {
  Tally tally;
  CURL* easy = make_easy(url, &tally);
  while (steady_us() < until_us) {
    perform(easy);
    ++tally.requests;
  }
  curl_easy_cleanup(easy);
  return tally;
}

Tally curl_at_once(const std::string& url, uint64_t until_us, size_t connections) {
  Tally tally;
  CURLM* multi = curl_multi_init();
  std::vector<CURL*> handles;
  for (size_t i = 0; i < connections; ++i) {
    handles.push_back(make_easy(url, &tally));
    curl_multi_add_handle(multi, handles.back());
  }
  for (int running = 1; running > 0;) {
    curl_multi_perform(multi, &running);
    int queued = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &queued)) {
      if (message->data.result != CURLE_OK) fail(curl_easy_strerror(message->data.result));
      ++tally.requests;
      CURL* const easy = message->easy_handle;
      curl_multi_remove_handle(multi, easy);
      if (steady_us() >= until_us) continue;
      curl_multi_add_handle(multi, easy);
      running = 1;
    }
    if (running > 0) curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
  }
  for (CURL* easy : handles) curl_easy_cleanup(easy);
  curl_multi_cleanup(multi);
  return tally;
}

Tally curl_put_file(const std::string& url, uint64_t until_us, const std::string& path) {
  constexpr long kMostUploadBuffer = 2 << 20;
  Tally answers;
  Tally tally;
  CURL* easy = make_easy(url, &answers);
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) fail(path);
  // Reads of curl's size go straight from the file to its buffer.
  std::setvbuf(file, nullptr, _IONBF, 0);
  std::fseek(file, 0, SEEK_END);
  const long size = std::ftell(file);
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");  // as ours: the body follows at once
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(easy, CURLOPT_READDATA, file);
  curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(size));
  curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kMostUploadBuffer);
  while (steady_us() < until_us) {
    std::rewind(file);
    perform(easy);
    ++tally.requests;
    tally.bytes += static_cast<uint64_t>(size);
  }
  curl_slist_free_all(headers);
  curl_easy_cleanup(easy);
  std::fclose(file);
  return tally;
}

Tally run(bool ours, const std::string& what, const std::string& url, uint64_t until_us, const char* last) {
  if (what == "put") return ours ? put_file(url, until_us, last) : curl_put_file(url, until_us, last);
  const size_t connections = std::strtoul(last, nullptr, 10);
  if (connections == 1) return ours ? get_one_by_one(url, until_us) : curl_one_by_one(url, until_us);
  return ours ? get_at_once(url, until_us, connections) : curl_at_once(url, until_us, connections);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) fail("ours|curl get|put URL SECONDS CONNECTIONS|FILE");
  curl_global_init(CURL_GLOBAL_ALL);
  const uint64_t began = steady_us();
  const double cpu = process_cpu_seconds();
  const uint64_t until = began + static_cast<uint64_t>(std::strtod(arguments[4], nullptr) * 1e6);
  const Tally tally =
      run(std::string(arguments[1]) == "ours", arguments[2], arguments[3], until, arguments[5]);
  std::printf("{\"requests\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"cpu\": %.6f}\n",
              static_cast<unsigned long long>(tally.requests), static_cast<unsigned long long>(tally.bytes),
              static_cast<double>(steady_us() - began) / 1e6, process_cpu_seconds() - cpu);
}
