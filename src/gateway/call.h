// Call: one request as the gateway sees it: which bucket and key, who asks, and how to answer.
//
// Lives in the coroutine that serves the request.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/buffer.h"
#include "base/log.h"
#include "base/workers.h"
#include "gateway/access.h"
#include "gateway/audit.h"
#include "gateway/s3_errors.h"
#include "gateway/s3_operations.h"
#include "net/connection.h"
#include "net/loop.h"
#include "net/url.h"
#include "store/objects.h"
#include "store/request_memory.h"

namespace millrace::gateway {

class ShardIndexes;
class Transforms;

// What every operation uses; wired once by the node and outliving all calls.
struct Services {
  store::Objects& objects;
  store::RequestMemory& memory;
  ShardIndexes& indexes;
  Workers& workers;  // what waits for objects for a moment
  Workers& movers;   // what goes over many bytes: lookups never wait behind it
  Log& log;
  store::NameRule names = store::NameRule::kS3;  // of new buckets
  Audit* audit = nullptr;                        // none: nothing is kept
  Transforms* transforms = nullptr;              // none: there are no transforms here
};

class Call {
 public:
  Call(Services& services, net::Connection& connection) : services(services), connection(connection) {}

  Services& services;
  net::Connection& connection;
  std::string bucket;
  std::string key;
  bool administrative = false;  // the path is one of /-/
  bool in_host = false;         // the bucket is in the host, the path is the key
  std::vector<net::QueryItem> query;
  Caller caller;
  Operation operation = Operation::kNone;
  Charge document;  // of a body that was read whole
  // For the audit.
  std::string_view refused_with = {};  // S3's code of the refusal
  std::string change;                  // what administration was asked to change, as it came
  std::vector<TouchedObject> touched;  // of a request about many objects

  store::Objects& objects() { return services.objects; }
  // One of many objects that the request is about; kept where there is an audit.
  void touch(const std::string& object, const Status& outcome);
  const net::RequestHead& request() const { return connection.request(); }
  std::string_view method() const { return request().method; }
  bool has_query(std::string_view name) const { return find_query(name).has_value(); }
  std::optional<std::string_view> find_query(std::string_view name) const;
  std::string get_query(std::string_view name) const { return std::string(find_query(name).value_or("")); }

  // What the objects answer: `start` is given the function to call with it.
  template <typename T>
  net::Answer<Result<T>> ask(std::function<void(store::Done<T>)> start) {
    return net::await_callback<Result<T>>(connection.loop(), std::move(start));
  }
  // Runs work that waits for objects on a worker thread. It returns a Result or Status.
  template <typename Work>
  auto blocking(Work work) {
    return run_on(services.workers, std::move(work));
  }
  // The same for work that may take long: copies, batches, unpacking.
  template <typename Work>
  auto blocking_long(Work work) {
    return run_on(services.movers, std::move(work));
  }
  // Memory of the node's budget for the rest of the request; waits until others give some back.
  net::Task<Status> reserve(uint64_t bytes);
  // Of what was reserved only this much is still needed.
  void keep_reserved(uint64_t bytes) { reserved_.shrink(bytes); }
  net::Task<Status> refuse(Refusal refusal);
  net::Task<Status> refuse(const Error& error);
  net::Task<Status> send_xml(int status, std::string body);
  net::Task<Status> send_json(std::string body);
  net::Task<Status> send_empty(int status);

 private:
  template <typename Work, typename Outcome = std::invoke_result_t<Work>>
  net::Answer<Outcome> run_on(Workers& workers, Work work) {
    auto kept = std::make_shared<Work>(std::move(work));
    return net::await_callback<Outcome>(
        connection.loop(), [&workers, kept](std::function<void(Outcome)> done) {
          const bool taken = workers.submit([kept, done] { done((*kept)()); });
          if (!taken) done(make_error(Code::kUnavailable, "too many calls are waiting"));
        });
  }

  Charge reserved_;
};

// Whether it comes from an S3 client: those always sign, in a header or in the query.
bool looks_signed(const net::RequestHead& request);

// Whether a page of another origin sent the request: browsers say so.
bool from_foreign_page(const net::RequestHead& request);

}  // namespace millrace::gateway
