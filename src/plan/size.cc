// Computes the counts (demand over unit rate) and writes the plan with them.
#include "plan/size.h"

#include <algorithm>

#include "plan/path.h"

namespace millrace::plan {

namespace {

// A sample of the plans made here; with it every usual compression gives whole bytes.
constexpr uint64_t kSampleBytes = 100'000;

// Bytes a second that one GPU takes in. A GPU that is known by its steps takes samples of its model's size.
Rational decoded_rate(const SizeRequest& request) {
  const Part& gpu = request.gpu;
  return gpu.rate > 0 ? Rational(gpu.rate) : gpu.samples_per_second * gpu.sample * request.compression;
}

std::string part_text(const Part& part) {
  std::string text = fmt::format("\n[part.{}]\nkind = \"{}\"\n", part.name, kind_name(part.kind));
  const auto line = [&text](const char* key, uint64_t rate) {
    if (rate > 0) text += fmt::format("{} = \"{}B/s\"\n", key, rate);
  };
  line(part.kind == Kind::kDrive ? "read" : "rate", part.rate);
  line("random", part.random);
  line("write", part.write);
  line("in", part.in);
  line("out", part.out);
  if (part.capacity > 0) text += fmt::format("capacity = \"{}B\"\n", part.capacity);
  if (part.per_machine > 0) text += fmt::format("per_machine = {}\n", part.per_machine);
  if (part.price > 0) text += fmt::format("price = {}\n", to_double(part.price));
  return text;
}

}  // namespace

Result<Size> size_for(const SizeRequest& request) {
  if (request.gpus == 0) return make_error(Code::kInvalid, "for no GPUs there is nothing to size");
  if (request.compression <= 0) return make_error(Code::kInvalid, "compression must be above 0");
  const Rational gpu_rate = decoded_rate(request);
  if (gpu_rate <= 0)
    return make_error(Code::kInvalid, "how many bytes {} takes in is not known", request.gpu.name)
        .with_hint("give --gpu-rate, the decoded bytes it takes in");
  if (request.core.name.empty() && request.compression != 1)
    return make_error(Code::kInvalid, "compressed samples need something that decodes them")
        .with_hint("--core core");
  Size size;
  size.gpus = request.gpus;
  size.decoded = request.gpus * gpu_rate;
  size.stored = size.decoded / request.compression;
  Workload workload;
  workload.access = request.access;
  const Rational one_drive = drive_rate(workload, request.drive);
  size.drives_for_rate = ceiling(size.stored / one_drive);
  if (request.dataset > 0) {
    if (request.drive.capacity == 0)
      return make_error(Code::kInvalid, "how much a {} holds is not known", request.drive.name)
          .with_hint("--drive-capacity 8TB");
    size.drives_for_room = ceiling(request.dataset * request.redundancy.overhead() / request.drive.capacity);
  }
  size.drives = std::max(size.drives_for_rate, size.drives_for_room);
  size.drive_rate = size.drives * one_drive;
  size.price = size.drives * request.drive.price;
  if (request.drive.per_machine > 0)
    size.store_machines = ceiling(Rational(size.drives, request.drive.per_machine));
  if (!request.interface.name.empty()) size.interfaces = ceiling(size.stored / request.interface.rate);
  if (request.compression != 1) {
    if (request.core.in > 0) size.cores = ceiling(size.stored / request.core.in);
    if (request.core.out > 0) size.cores = std::max(size.cores, ceiling(size.decoded / request.core.out));
  }
  if (!request.link.name.empty()) {
    const uint64_t per_gpu = ceiling(gpu_rate / request.link.rate);
    size.links = request.gpus * per_gpu;
  }
  return size;
}

std::string plan_text(const SizeRequest& request, const Size& size) {
  const bool is_local = request.interface.name.empty();
  const uint64_t sample = request.gpu.rate == 0 ? request.gpu.sample : kSampleBytes;
  const uint64_t dataset = request.dataset > 0 ? request.dataset : 1'000'000'000'000;
  std::string text = fmt::format(
      "# {} GPUs, everything sized to keep them busy. Counts are of parts, not yet of machines.\n"
      "name = \"{} GPUs\"\n\n[workload]\nsample = \"{}B\"\ndecoded = \"{}B\"\ndataset = \"{}B\"\naccess = "
      "\"{}\"\n",
      size.gpus, size.gpus, sample, ceiling(request.compression * sample), dataset,
      request.access == Access::kRandom ? "random" : "sequential");
  if (request.redundancy.is_coded())
    text += fmt::format("redundancy = \"ec={}+{}\"\n", request.redundancy.data, request.redundancy.parity);
  else if (request.redundancy.parity > 0)
    text += fmt::format("redundancy = \"copies={}\"\n", request.redundancy.parity + 1);
  text += fmt::format("\n[[store]]\nname = \"drives\"\ndrive = \"{}\"\ndrives = {}\n", request.drive.name,
                      size.drives);
  if (is_local) {
    text += "at = \"gpus\"\n";
  } else {
    text += fmt::format("interface = \"{}\"\ninterfaces = {}\n", request.interface.name, size.interfaces);
  }
  text += fmt::format("\n[[gpu]]\nname = \"gpus\"\ngpus = {}\ngpu = \"{}\"\n", size.gpus, request.gpu.name);
  if (size.cores > 0) text += fmt::format("cores = {}\ncore = \"{}\"\n", size.cores, request.core.name);
  if (!request.link.name.empty()) text += fmt::format("link = \"{}\"\n", request.link.name);
  for (const Part* part : {&request.gpu, &request.drive, &request.core, &request.interface, &request.link}) {
    if (!part->name.empty()) text += part_text(*part);
  }
  return text;
}

}  // namespace millrace::plan
