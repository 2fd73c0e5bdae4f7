// millrace plan size: how many of each part keep the GPUs busy.
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/planning.h"
#include "plan/size.h"

namespace millrace::cli {

namespace {

struct SizeFlags {
  std::vector<uint64_t> gpus = {16};
  std::string drive = "rotational";
  std::string interface = "interface";
  std::string core = "core";
  std::string link;
  std::string gpu = "gpu";
  std::string access = "sequential";
  std::string redundancy = "none";
  std::string output;
  bool local = false;
  double compression = 1;
  uint64_t dataset = 0;
  uint64_t gpu_rate = 0;
  uint64_t drive_rate = 0;
  uint64_t drive_capacity = 0;
  uint64_t interface_rate = 0;
  uint64_t core_in = 0;
  uint64_t core_out = 0;
  uint64_t link_rate = 0;
};

// The measured figure counts more than the catalogue's.
void take_measured(plan::SizeRequest& request, const SizeFlags& flags) {
  if (flags.gpu_rate > 0) request.gpu.rate = flags.gpu_rate;
  if (flags.drive_rate > 0) request.drive.rate = request.drive.random = flags.drive_rate;
  if (flags.drive_capacity > 0) request.drive.capacity = flags.drive_capacity;
  if (flags.interface_rate > 0) request.interface.rate = flags.interface_rate;
  if (flags.core_in > 0) request.core.in = flags.core_in;
  if (flags.core_out > 0) request.core.out = flags.core_out;
  if (flags.link_rate > 0) {
    request.link.name = flags.link.empty() ? "link" : flags.link;
    request.link.rate = flags.link_rate;
  }
}

Result<plan::SizeRequest> make_request(const SizeFlags& flags) {
  const plan::Catalogue catalogue = MR_TRY(plan::Catalogue::standard());
  plan::SizeRequest request;
  request.gpu = MR_TRY(catalogue.get(plan::Kind::kGpu, flags.gpu));
  request.drive = MR_TRY(catalogue.get(plan::Kind::kDrive, flags.drive));
  request.core = MR_TRY(catalogue.get(plan::Kind::kCore, flags.core));
  if (!flags.local) request.interface = MR_TRY(catalogue.get(plan::Kind::kLink, flags.interface));
  if (!flags.link.empty()) request.link = MR_TRY(catalogue.get(plan::Kind::kLink, flags.link));
  take_measured(request, flags);
  if (flags.access != "sequential" && flags.access != "random")
    return make_error(Code::kInvalid, "--access {} is neither sequential nor random", flags.access);
  request.access = flags.access == "random" ? plan::Access::kRandom : plan::Access::kSequential;
  request.redundancy = MR_TRY(plan::parse_redundancy(flags.redundancy));
  request.dataset = flags.dataset;
  if (!(flags.compression > 0 && flags.compression <= 1e6))
    return make_error(Code::kInvalid, "--compression {} is not a number from above 0 to a million",
                      flags.compression);
  request.compression = plan::to_rational(flags.compression);
  return request;
}

Json size_json(const plan::Size& size) {
  return {{"gpus", size.gpus},
          {"drives", size.drives},
          {"drives_for_rate", size.drives_for_rate},
          {"drives_for_room", size.drives_for_room},
          {"store_machines", size.store_machines},
          {"interfaces", size.interfaces},
          {"cores", size.cores},
          {"links", size.links},
          {"stored_bytes_per_second", to_double(size.stored)},
          {"gpu_in_bytes_per_second", to_double(size.decoded)},
          {"drive_bytes_per_second", to_double(size.drive_rate)},
          {"drives_dollars", size.price > 0 ? Json(to_double(size.price)) : Json()}};
}

std::string gigabytes(const plan::Rational& rate) {
  return fmt::format("{:g}", to_double(rate) / 1e9);
}

void print_sizes(const plan::SizeRequest& request, const std::vector<plan::Size>& sizes) {
  std::vector<std::vector<std::string>> rows = {{"GPUs", "drives"}};
  const auto column = [&rows](const char* name) { rows[0].push_back(name); };
  const bool has_interfaces = !request.interface.name.empty(), has_cores = request.compression != 1;
  if (has_interfaces) column("interfaces");
  column("stored GB/s");
  if (has_cores) column("cores");
  column("GPU GB/s");
  column("drives give GB/s");
  column("store machines");
  column("drives cost");
  for (const plan::Size& size : sizes) {
    std::vector<std::string> row = {format_count(size.gpus), format_count(size.drives)};
    if (has_interfaces) row.push_back(format_count(size.interfaces));
    row.push_back(gigabytes(size.stored));
    if (has_cores) row.push_back(format_count(size.cores));
    row.push_back(gigabytes(size.decoded));
    row.push_back(gigabytes(size.drive_rate));
    row.push_back(size.store_machines > 0 && has_interfaces ? format_count(size.store_machines) : "");
    row.push_back(size.price > 0 ? plan::format_dollars(size.price) : "");
    rows.push_back(std::move(row));
  }
  print_table(rows);
}

std::string explain(const plan::SizeRequest& request, const plan::Size& size) {
  if (size.drives_for_room > size.drives_for_rate)
    return fmt::format("{} x {} for the room; for the rate {} would do", format_count(size.drives),
                       request.drive.name, format_count(size.drives_for_rate));
  if (size.drives_for_room > 0)
    return fmt::format("{} x {} for the rate; for the room {} would do", format_count(size.drives),
                       request.drive.name, format_count(size.drives_for_room));
  return "";
}

Status run(Shell& shell, const SizeFlags& flags) {
  plan::SizeRequest request = MR_TRY(make_request(flags));
  if (!flags.output.empty() && flags.gpus.size() != 1)
    return make_error(Code::kInvalid, "-o writes one plan: give one number of GPUs");
  std::vector<plan::Size> sizes;
  for (const uint64_t gpus : flags.gpus) {
    request.gpus = gpus;
    sizes.push_back(MR_TRY(plan::size_for(request)));
    if (shell.json) Shell::print(size_json(sizes.back()));
  }
  if (!shell.json) print_sizes(request, sizes);
  if (sizes.size() == 1 && !explain(request, sizes[0]).empty()) shell.say(explain(request, sizes[0]));
  if (flags.output.empty()) return {};
  if (shell.dry_run) {
    shell.say(fmt::format("would write the plan to {}", flags.output));
    return {};
  }
  MR_TRY(write_file_atomically(flags.output, plan::plan_text(request, sizes[0])));
  shell.say(fmt::format("the plan is in {}: millrace plan check {}", flags.output, flags.output));
  return {};
}

}  // namespace

void add_plan_size(CLI::App& plan, Shell& shell) {
  CLI::App* verb = plan.add_subcommand("size", "How many of each part keep so many GPUs busy");
  verb->fallthrough();
  auto flags = std::make_shared<SizeFlags>();
  verb->add_option("--gpus", flags->gpus, "How many; several give a table: 1,4,8,16")
      ->delimiter(',')
      ->check(at_least_one())
      ->type_name("N,…")
      ->capture_default_str();
  const auto part = [verb](const char* name, std::string& value, const char* help) {
    verb->add_option(name, value, help)->type_name("PART")->capture_default_str();
  };
  part("--gpu", flags->gpu, "Which GPU: a part of the catalogue, or a model on a GPU such as resnet50-h100");
  add_rate(*verb, "--gpu-rate", flags->gpu_rate, "Decoded bytes that one GPU takes in (default 300MB/s)");
  part("--drive", flags->drive, "Which drives");
  add_rate(*verb, "--drive-rate", flags->drive_rate, "What one gives, as measured");
  add_bytes(*verb, "--drive-capacity", flags->drive_capacity, "What one holds");
  verb->add_option("--access", flags->access, "sequential shards, or random files")
      ->type_name("sequential|random")
      ->capture_default_str();
  part("--interface", flags->interface, "Which network interface");
  add_rate(*verb, "--interface-rate", flags->interface_rate, "What one gives, as measured");
  verb->add_flag("--local", flags->local, "Drives in the GPU machine: no network");
  verb->add_option("--compression", flags->compression,
                   "Decoded bytes of one stored byte; 1: nothing is decoded")
      ->capture_default_str();
  part("--core", flags->core, "Which CPU core decodes");
  add_rate(*verb, "--core-in", flags->core_in, "Stored bytes one takes in, as measured");
  add_rate(*verb, "--core-out", flags->core_out, "Decoded bytes one gives out, as measured");
  part("--link", flags->link, "Which link leads to a GPU");
  add_rate(*verb, "--link-rate", flags->link_rate, "What one gives, as measured");
  add_bytes(*verb, "--dataset", flags->dataset, "What the drives must hold");
  verb->add_option("--redundancy", flags->redundancy, "none, copies=2 or ec=8+2")->capture_default_str();
  verb->add_option("-o,--output", flags->output, "Write the result as a plan")->type_name("FILE");
  add_dry_run(*verb, shell);
  verb->footer(
      "Examples:\n"
      "  millrace plan size --gpus 16 --gpu-rate 200MB/s --dataset 100TB\n"
      "  millrace plan size --gpus 8 --gpu resnet50-h100 --drive nvme\n"
      "  millrace plan size --gpus 1,4,8,16,64,256 --access random --compression 4\n"
      "  millrace plan size --gpus 256 --gpu-rate 300MB/s --drive nvme --interface 100GbE -o cluster.toml");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
