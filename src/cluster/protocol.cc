// Each kind of request to the role that serves it.
#include "cluster/protocol.h"

#include <utility>

namespace millrace::cluster {

namespace {

struct Dispatch {
  Holder& holder;
  Home& home;
  Mender& mender;
  Done<Reply> done;

  void operator()(PrepareRequest&& request) { holder.prepare(std::move(request), std::move(done)); }
  void operator()(StateRequest&& request) { holder.tell(std::move(request), std::move(done)); }
  void operator()(MarkRequest&& request) { holder.mark(std::move(request), std::move(done)); }
  void operator()(CompleteRequest&& request) { holder.complete(std::move(request), std::move(done)); }
  void operator()(DropRequest&& request) { holder.drop(std::move(request), std::move(done)); }
  void operator()(ForgetRequest&& request) { holder.forget(std::move(request), std::move(done)); }
  void operator()(CompareRequest&& request) { holder.compare(std::move(request), std::move(done)); }
  void operator()(MendRequest&& request) { mender.mend(std::move(request), std::move(done)); }
  void operator()(CommitRequest&& request) { home.commit(std::move(request), std::move(done)); }
  void operator()(FindRequest&& request) { home.find(std::move(request), std::move(done)); }
  template <typename Bulk>
  void operator()(Bulk&&) {
    done(make_error(Code::kUnsupported, "this message is not about a key"));
  }
};

}  // namespace

void Protocol::handle(Request request, Done<Reply> done) {
  std::visit(Dispatch{holder_, home_, mender_, std::move(done)}, std::move(request));
}

}  // namespace millrace::cluster
