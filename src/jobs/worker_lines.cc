// Encodings of orders and answers.
#include "jobs/worker_lines.h"

#include <algorithm>

#include "jobs/strict_json.h"

namespace millrace::jobs {

namespace {

constexpr size_t kMostListed = 1'000'000;
constexpr std::string_view kOutcomes[] = {"done", "failed", "hopeless", "cut"};

Json as_json(const WorkSetup& setup) {
  return {{"job", setup.job},
          {"stage", setup.stage},
          {"description", Json::parse(encode(setup.description))},
          {"directory", setup.directory},
          {"program", setup.program},
          {"confined", setup.confinement == shard::Confinement::kBubblewrap},
          {"readable", setup.readable},
          {"sorted_shards", setup.sorted_shards}};
}

Result<WorkOrder> decode_setup(const Json& json) {
  StrictObject object(json, "a setup");
  WorkSetup setup;
  bool confined = true;
  const Json* const description = object.find("description");
  object.take("job", setup.job);
  object.take("stage", setup.stage);
  object.take("directory", setup.directory);
  object.take("program", setup.program);
  object.take("confined", confined);
  object.take("readable", setup.readable, kMostListed);
  object.take("sorted_shards", setup.sorted_shards);
  MR_TRY(object.finish());
  if (description == nullptr) return make_error(Code::kInvalid, "a setup has no description");
  setup.description = MR_TRY(decode_description(to_text(*description)));
  setup.confinement = confined ? shard::Confinement::kBubblewrap : shard::Confinement::kNone;
  return WorkOrder(std::move(setup));
}

Result<WorkOrder> decode_task(const Json& json) {
  StrictObject object(json, "a task");
  WorkTask task;
  object.take("number", task.number);
  object.take("input", task.input);
  object.take("output", task.output);
  MR_TRY(object.finish());
  return WorkOrder(std::move(task));
}

Result<WorkOrder> decode_ranks_order(const Json& json) {
  StrictObject object(json, "an order for ranks");
  WorkRanks ranks;
  object.take("rank", ranks.rank);
  object.take("addresses", ranks.addresses, kMostListed);
  object.take("secret", ranks.secret);
  object.take("inputs", ranks.inputs, kMostListed);
  MR_TRY(object.finish());
  return WorkOrder(std::move(ranks));
}

struct Encode {
  Json operator()(const WorkSetup& setup) const { return {{"setup", as_json(setup)}}; }
  Json operator()(const WorkTask& task) const {
    return {{"task", {{"number", task.number}, {"input", task.input}, {"output", task.output}}}};
  }
  Json operator()(const WorkListen& listen) const { return {{"listen", {{"host", listen.host}}}}; }
  Json operator()(const WorkRanks& ranks) const {
    return {{"ranks",
             {{"rank", ranks.rank},
              {"addresses", ranks.addresses},
              {"secret", ranks.secret},
              {"inputs", ranks.inputs}}}};
  }
  Json operator()(const WorkResult& result) const {
    return {{"result",
             {{"outcome", kOutcomes[static_cast<size_t>(result.outcome)]},
              {"sums", result.sums},
              {"message", result.message}}}};
  }
  Json operator()(const WorkPort& port) const { return {{"port", port.port}}; }
};

Result<WorkAnswer> decode_result(const Json& json) {
  StrictObject object(json, "a result");
  WorkResult result;
  std::string outcome;
  object.take("outcome", outcome);
  object.take("sums", result.sums, kMostSums);
  object.take("message", result.message);
  MR_TRY(object.finish());
  const auto known = std::ranges::find(kOutcomes, outcome);
  if (known == std::end(kOutcomes)) return make_error(Code::kInvalid, "a result has an unknown outcome");
  result.outcome = static_cast<Outcome>(known - std::begin(kOutcomes));
  return WorkAnswer(std::move(result));
}

}  // namespace

std::string encode(const WorkOrder& order) {
  return to_text(std::visit(Encode(), order));
}

std::string encode(const WorkAnswer& answer) {
  return to_text(std::visit(Encode(), answer));
}

Result<WorkOrder> decode_order(std::string_view line) {
  const Json json = MR_TRY(parse_json(line, "an order"));
  if (json.is_object() && json.size() == 1) {
    if (json.contains("setup")) return decode_setup(json["setup"]);
    if (json.contains("task")) return decode_task(json["task"]);
    if (json.contains("ranks")) return decode_ranks_order(json["ranks"]);
    if (json.contains("listen")) {
      WorkListen listen;
      StrictObject object(json["listen"], "an order to listen");
      object.take("host", listen.host);
      MR_TRY(object.finish());
      return WorkOrder(std::move(listen));
    }
  }
  return make_error(Code::kInvalid, "an order is not one that is known");
}

Result<WorkAnswer> decode_answer(std::string_view line) {
  const Json json = MR_TRY(parse_json(line, "a worker's answer"));
  if (json.is_object() && json.size() == 1) {
    if (json.contains("result")) return decode_result(json["result"]);
    const Json port = json.value("port", Json());
    if (port.is_number_unsigned() && port.get<uint64_t>() <= UINT16_MAX)
      return WorkAnswer(WorkPort{port.get<uint16_t>()});
  }
  return make_error(Code::kInvalid, "a worker's answer is not one that is known");
}

}  // namespace millrace::jobs
