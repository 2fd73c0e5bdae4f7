// Gives the gateway transforms as it sees them, and administration their JSON.
#include "node/node_transforms.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "cluster/files_registry.h"
#include "gateway/s3_errors.h"

namespace millrace::node {

namespace {

using Json = nlohmann::ordered_json;
using transform::Registered;

constexpr size_t kMostWaitingRuns = 256;

// The gateway's word for what its client is to know.
Error as_gateway_says(Error error) {
  if (error.is(transform::kTransformFailed))
    return Error(gateway::kTransformFailed, error.message()).with_hint(error.hint());
  return error;
}

Json summary_json(const Registered& registered) {
  const transform::Description& description = registered.description;
  Json json = {{"name", registered.name},
               {"version", registered.version},
               {"tag", registered.tag()},
               {"kind", transform::kind_name(description.kind)},
               {"on_error", transform::on_error_name(description.on_error)},
               {"keep", description.keep}};
  if (!description.note.empty()) json["note"] = description.note;
  return json;
}

class KeptSink final : public gateway::KeptWriter {
 public:
  explicit KeptSink(std::unique_ptr<transform::KeptResults::Writer> writer) : writer_(std::move(writer)) {}
  Status write(std::string_view bytes) override { return writer_->write(bytes); }
  Status finish() override { return {}; }
  void commit() override { writer_->commit(); }

 private:
  const std::unique_ptr<transform::KeptResults::Writer> writer_;
};

}  // namespace

class NodeTransforms::OneTransform final : public gateway::Transform {
 public:
  OneTransform(std::shared_ptr<const Registered> registered, transform::Engine& engine)
      : registered_(std::move(registered)), tag_(registered_->tag()), engine_(engine) {}

  const std::string& tag() const override { return tag_; }
  Status run(const Input& input, tar::ByteSink& out) const override {
    auto outcome = engine_.run(*registered_, {input.object, input.tar, input.size}, out);
    return outcome ? Status() : Status(as_gateway_says(outcome.take_error()));
  }
  std::optional<Error> find_failure(const std::string& object) const override {
    const auto failure = engine_.find_failure(*registered_, object);
    if (!failure) return std::nullopt;
    return Error(gateway::kTransformFailed, failure->message);
  }
  bool keeps_results() const override { return registered_->description.keep; }

 private:
  const std::shared_ptr<const Registered> registered_;
  const std::string tag_;
  transform::Engine& engine_;
};

NodeTransforms::NodeTransforms(std::unique_ptr<cluster::Registry> own, Surroundings around, unsigned runs)
    : own_(std::move(own)),
      around_(std::move(around)),
      book_(around_.registry != nullptr ? *around_.registry : *own_),
      engine_({}),
      runs_(runs, kMostWaitingRuns) {}

Result<std::unique_ptr<NodeTransforms>> NodeTransforms::open(const Config& config, Surroundings around,
                                                             Log& log) {
  std::unique_ptr<cluster::Registry> own;
  if (around.registry == nullptr) own = MR_TRY(cluster::FilesRegistry::open(config.data + "/transforms"));
  std::unique_ptr<NodeTransforms> node(
      new NodeTransforms(std::move(own), std::move(around), static_cast<unsigned>(config.transform_runs)));
  node->kept_ = MR_TRY(transform::KeptResults::open(
      {config.data + "/results", config.transform_keep, static_cast<unsigned>(config.evict_to_percent)}));
  MR_TRY(node->book_.refresh());
  node->reader_.start(std::chrono::seconds(60), [made = node.get(), &log] {
    if (const Status read = made->book_.refresh(); !read)
      log.warn("transforms cannot be read from the registry", "error", read.error().message());
  });
  // Of a node alone nobody else changes them.
  if (node->around_.registry != nullptr)
    node->watch_ =
        node->around_.registry->watch("transforms/", [made = node.get()] { made->reader_.wake(); });
  return node;
}

NodeTransforms::~NodeTransforms() {
  stop();
}

void NodeTransforms::stop() {
  watch_.reset();
  reader_.stop();
  {
    // Runs may wait for clients that nobody serves any more.
    const MutexLock lock(running_mutex_);
    stopping_ = true;
    for (const auto& cancel : cancels_) cancel();
  }
  engine_.stop();
  runs_.stop();
}

std::shared_ptr<const Registered> NodeTransforms::find_or_refresh(const std::string& name) {
  auto found = book_.find(name);
  if (found != nullptr || !transform::check_name(name)) return found;
  // Another node may have registered it a moment ago.
  if (!book_.refresh()) return nullptr;
  return book_.find(name);
}

Result<std::shared_ptr<const gateway::Transform>> NodeTransforms::get(const std::string& name) {
  auto found = find_or_refresh(name);
  if (found == nullptr)
    return make_error(gateway::kNoSuchTransform, "there is no transform {}", printable(name, 80))
        .with_hint("millrace transform list shows them, millrace transform add makes one");
  return std::shared_ptr<const gateway::Transform>(std::make_shared<OneTransform>(std::move(found), engine_));
}

bool NodeTransforms::submit(std::function<void()> run, std::function<void()> cancel) {
  return runs_.submit([this, run = std::move(run), cancel = std::move(cancel)] {
    std::list<std::function<void()>>::iterator own;
    {
      const MutexLock lock(running_mutex_);
      if (stopping_) cancel();
      own = cancels_.insert(cancels_.end(), cancel);
    }
    run();
    const MutexLock lock(running_mutex_);
    cancels_.erase(own);
  });
}

std::optional<gateway::KeptResult> NodeTransforms::find_kept(const std::string& name) {
  auto found = kept_->find(name);
  if (!found) return std::nullopt;
  return gateway::KeptResult{std::move(found->file), found->size};
}

std::unique_ptr<gateway::KeptWriter> NodeTransforms::keep(const std::string& name) {
  auto writer = kept_->begin(name);
  if (!writer) return nullptr;
  return std::make_unique<KeptSink>(std::move(writer));
}

Json NodeTransforms::list_json() const {
  Json list = Json::array();
  const auto counted = engine_.read();
  for (const auto& registered : book_.all()) {
    Json json = summary_json(*registered);
    for (const transform::Counted& one : counted) {
      if (one.name != registered->name) continue;
      json["runs"] = one.runs.count;
      json["failures"] = one.runs.errors;
      json["bytes_in"] = one.bytes_in;
      json["bytes_out"] = one.runs.bytes;
      json["samples_failed"] = one.samples_failed;
      json["seconds"] = static_cast<double>(one.runs.microseconds) / 1e6;
    }
    list.push_back(std::move(json));
  }
  return Json{{"transforms", list}};
}

Result<Json> NodeTransforms::show_json(const std::string& name) {
  const auto found = find_or_refresh(name);
  if (found == nullptr)
    return make_error(Code::kNotFound, "there is no transform {}", printable(name, 80))
        .with_hint("millrace transform list");
  Json json = summary_json(*found);
  json["description"] = transform::description_json(found->description);
  Json failures = Json::array();
  for (const transform::Failure& failure : engine_.failures(name)) {
    failures.push_back({{"at", format_iso_date(failure.at_ms)},
                        {"tag", failure.tag},
                        {"object", failure.object},
                        {"message", failure.message}});
  }
  json["failures"] = failures;
  return json;
}

Result<Json> NodeTransforms::add(const std::string& name, const std::string& description) {
  const auto parsed = MR_TRY(transform::parse_description(description));
  const auto registered = MR_TRY(book_.add(name, parsed));
  if (around_.tell_others) around_.tell_others();
  return summary_json(*registered);
}

Result<Json> NodeTransforms::remove(const std::string& name) {
  MR_TRY(book_.remove(name));
  engine_.forget(name);
  if (around_.tell_others) around_.tell_others();
  return Json{{"removed", name}};
}

}  // namespace millrace::node
