// Plans and their simulation for Python: which rank would hold which samples, epoch by epoch, without moving
// a byte.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "exchange/simulate.h"
#include "python/bindings.h"

namespace millrace::python {

namespace {

using exchange::EpochFigures;
using exchange::Simulation;

py::dict figures_of(const EpochFigures& figures) {
  py::dict found;
  found["epoch"] = figures.epoch;
  found["fraction"] = figures.fraction;
  found["moved"] = figures.moved;
  found["messages"] = figures.messages;
  found["most_sent"] = figures.most_sent;
  found["most_held"] = figures.most_held;
  found["home_share"] = figures.home_share;
  found["home_theory"] = figures.home_theory;
  found["label_distance"] = figures.balance.distance;
  found["label_floor"] = figures.balance.floor;
  found["owner_hash"] = figures.owner_hash;
  return found;
}

std::unique_ptr<Simulation> make_simulation(const std::vector<uint32_t>& labels, uint32_t ranks,
                                            const py::dict& options) {
  const auto text = [&](const char* name) { return options[name].cast<std::string>(); };
  exchange::PlanOptions plan;
  plan.policy = value_or_raise(exchange::parse_policy(text("policy")));
  plan.select = value_or_raise(exchange::parse_select(text("select")));
  plan.seed = options["seed"].cast<uint64_t>();
  plan.partners = options["partners"].cast<uint32_t>();
  exchange::Deal deal;
  deal.partition = value_or_raise(exchange::parse_partition(text("partition")));
  deal.ranks = ranks;
  deal.seed = plan.seed;
  if (ranks == 0 || ranks > exchange::kMaxRanks) throw py::value_error("ranks must be from 1 to 65536");
  const std::vector<uint32_t> owners = exchange::deal_samples(deal, {labels.size()});
  exchange::Ranks dealt(ranks);
  for (uint64_t id = 0; id < labels.size(); ++id) dealt[owners[id]].push_back({id, labels[id], 0});
  return std::make_unique<Simulation>(
      plan, value_or_raise(exchange::FractionSchedule::parse(text("fraction"))), std::move(dealt));
}

}  // namespace

void bind_pls_plan(py::module_& module) {
  py::class_<Simulation>(module, "PlsSimulation")
      .def(py::init(&make_simulation), py::arg("labels"), py::arg("ranks"), py::arg("options"))
      .def("step", [](Simulation& own) { return figures_of(value_or_raise(own.step())); })
      .def("figures", [](const Simulation& own) { return figures_of(own.figures()); })
      .def("ids", [](const Simulation& own) {
        py::list all;
        for (const auto& residents : own.ranks()) {
          py::array_t<int64_t> ids(static_cast<py::ssize_t>(residents.size()));
          for (size_t slot = 0; slot < residents.size(); ++slot)
            ids.mutable_at(static_cast<py::ssize_t>(slot)) = static_cast<int64_t>(residents[slot].id);
          all.append(std::move(ids));
        }
        return all;
      });
  module.def("pls_local_order", [](uint64_t seed, uint64_t epoch, uint32_t rank, uint32_t size) {
    const std::vector<uint32_t> order = exchange::local_order(seed, epoch, rank, size);
    return py::array_t<uint32_t>(static_cast<py::ssize_t>(order.size()), order.data());
  });
}

}  // namespace millrace::python
