// The standard catalogue, written as a plan's own parts would be, and the code that reads both.
#include "plan/catalogue.h"

#include "base/settings.h"
#include "plan/accelerators.h"

namespace millrace::plan {

namespace {

constexpr std::string_view kStandard = R"toml(
[part.rotational]
kind = "drive"
read = "200MB/s"
random = "20MB/s"
capacity = "8TB"
per_machine = 16
price = 320
source = "published talks on large-scale deep-learning I/O: 0.15 to 0.2 GB/s in sequence, 0.02 random, $320"
date = "2019"

[part.sata-ssd]
kind = "drive"
read = "400MB/s"
per_machine = 24
source = "published talks on large-scale deep-learning I/O"
date = "2019"

[part.nvme]
kind = "drive"
read = "3GB/s"
capacity = "1TB"
per_machine = 24
price = 350
source = "published talks on large-scale deep-learning I/O: 3 GB/s, $35 000 for 100 TB"
date = "2019"

[part.interface]
kind = "link"
rate = "5GB/s"
source = "published talks: a fast Ethernet or InfiniBand interface, as used"
date = "2019"

[part.10GbE]
kind = "link"
rate = "1GB/s"
source = "published talks: 10 Gb/s Ethernet, as used"
date = "2019"

[part.25GbE]
kind = "link"
rate = "2.94GB/s"
source = "IEEE 802.3by; 1448 of 1538 bytes on the wire are payload of TCP"
date = "2016"

[part.100GbE]
kind = "link"
rate = "11.77GB/s"
source = "IEEE 802.3bm; 1448 of 1538 bytes on the wire are payload of TCP"
date = "2015"

[part.200GbE]
kind = "link"
rate = "23.54GB/s"
source = "IEEE 802.3bs; 1448 of 1538 bytes on the wire are payload of TCP"
date = "2017"

[part.400GbE]
kind = "link"
rate = "47.07GB/s"
source = "IEEE 802.3bs; 1448 of 1538 bytes on the wire are payload of TCP"
date = "2017"

[part.infiniband-56]
kind = "link"
rate = "6.8GB/s"
source = "published talks: 56 Gb/s InfiniBand"
date = "2019"

[part.infiniband-100]
kind = "link"
rate = "12.5GB/s"
source = "InfiniBand EDR, four lanes, data rate"
date = "2014"

[part.infiniband-200]
kind = "link"
rate = "25GB/s"
source = "InfiniBand HDR, four lanes, data rate"
date = "2018"

[part.infiniband-400]
kind = "link"
rate = "50GB/s"
source = "InfiniBand NDR, four lanes, data rate"
date = "2021"

[part.sata]
kind = "link"
rate = "6GB/s"
source = "published talks: SATA interface, aggregate"
date = "2019"

[part.pcie-x8]
kind = "link"
rate = "5GB/s"
source = "published talks: PCIe x8 to a GPU, as used"
date = "2019"

[part.pcie3-x16]
kind = "link"
rate = "15.75GB/s"
source = "PCI Express 3.0: 8 GT/s, 128 of 130 bits"
date = "2010"

[part.pcie4-x16]
kind = "link"
rate = "31.5GB/s"
source = "PCI Express 4.0: 16 GT/s, 128 of 130 bits"
date = "2017"

[part.pcie5-x16]
kind = "link"
rate = "63GB/s"
source = "PCI Express 5.0: 32 GT/s, 128 of 130 bits"
date = "2019"

[part.pcie-40-lanes]
kind = "link"
rate = "30GB/s"
source = "published talks: CPU with 40 PCIe lanes"
date = "2019"

[part.nvlink1]
kind = "link"
rate = "40GB/s"
source = "published talks: NVLINK, first generation"
date = "2019"

[part.core]
kind = "core"
in = "25MB/s"
out = "100MB/s"
source = "published talks: one CPU core decodes compressed images"
date = "2019"

[part.core-millrace]
kind = "core"
in = "62.9MB/s"
out = "367.9MB/s"
source = "docs/measurements.md: 1 222 JPEGs of 103 KB a second to 224 x 224 float32 on 2 cores"
date = "2026-11"

[part.gpu]
kind = "gpu"
rate = "300MB/s"
source = "published talks: one GPU takes in 0.2 to 1 GB/s"
date = "2019"
)toml";

constexpr std::string_view kAcceleratorSource =
    "public configuration of MLPerf Storage; not an MLPerf result";

const std::vector<std::string> kKinds = {"link", "drive", "core", "gpu"};

Result<Kind> parse_kind(std::string_view text) {
  for (const Kind kind : {Kind::kDrive, Kind::kLink, Kind::kCore, Kind::kGpu}) {
    if (kind_name(kind) == text) return kind;
  }
  return make_error(Code::kInvalid, "{} is not a kind of part", text);
}

void read_drive(TomlFields& fields, Part& part) {
  part.rate = fields.rate("read", part.rate);
  part.random = fields.rate("random", part.random);
  part.write = fields.rate("write", part.write);
  part.capacity = fields.bytes("capacity", part.capacity);
  part.per_machine = fields.count("per_machine", part.per_machine);
  if (part.rate == 0) fields.fail(fields.wrong("read", "is missing: how fast it is read in sequence"));
  if (part.random > part.rate)
    fields.fail(fields.wrong("random", "is above the rate in sequence, which no drive does"));
}

void read_gpu(TomlFields& fields, Part& part) {
  const bool has_rate = fields.has("rate"), has_batch = fields.has("batch"),
             has_step = fields.has("step_seconds");
  if (has_rate && (has_batch || has_step))
    fields.fail(fields.wrong("rate", "and batch with step_seconds say the same thing: give one"));
  if (has_batch != has_step) fields.fail(fields.wrong("batch", "and step_seconds go together"));
  if (has_rate) part.samples_per_second = 0;
  part.rate = fields.rate("rate", part.rate);
  part.sample = fields.bytes("sample", part.sample);
  if (has_batch && has_step) {
    const Rational step = to_rational(fields.real("step_seconds"));
    const uint64_t batch = fields.count("batch", 1);
    if (step == 0 || batch == 0)
      return fields.fail(fields.wrong("step_seconds", "and batch must be above 0"));
    part.samples_per_second = Rational(batch) / step;
    part.rate = 0;
  }
  if (part.rate == 0 && part.samples_per_second == 0)
    fields.fail(fields.wrong("rate", "is missing, and so are batch and step_seconds"));
}

Status read_part(TomlFields& fields, Part& part) {
  switch (part.kind) {
    case Kind::kDrive:
      read_drive(fields, part);
      break;
    case Kind::kLink:
      part.rate = fields.rate("rate", part.rate);
      if (part.rate == 0) fields.fail(fields.wrong("rate", "is missing"));
      break;
    case Kind::kCore:
      part.in = fields.rate("in", part.in);
      part.out = fields.rate("out", part.out);
      if (part.in == 0 && part.out == 0) fields.fail(fields.wrong("in", "is missing, and so is out"));
      break;
    case Kind::kGpu:
      read_gpu(fields, part);
      break;
  }
  if (fields.has("price")) part.price = to_rational(fields.real("price"));
  part.source = fields.text("source", part.source.empty() ? "the plan" : part.source);
  part.date = fields.text("date", part.date);
  return fields.finish();
}

}  // namespace

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kDrive:
      return "drive";
    case Kind::kLink:
      return "link";
    case Kind::kCore:
      return "core";
    case Kind::kGpu:
      return "gpu";
  }
  return "";
}

Result<Catalogue> Catalogue::standard() {
  Catalogue catalogue;
  const TomlDocument document = MR_TRY(parse_toml(kStandard, "catalogue"));
  MR_TRY(catalogue.add(document));
  for (const Accelerator& one : accelerators()) {
    Part part;
    part.name = one.name;
    part.kind = Kind::kGpu;
    part.samples_per_second = Rational(one.batch) / to_rational(one.seconds);
    part.sample = one.record_bytes;
    part.source = kAcceleratorSource;
    part.date = "2025";
    catalogue.parts_.push_back(std::move(part));
  }
  return catalogue;
}

Status Catalogue::add(const TomlDocument& document) {
  const TomlValue* parts = document.root.find("part");
  if (parts == nullptr) return {};
  if (parts->kind != TomlValue::Kind::kTable)
    return make_error(Code::kInvalid, "{}: part must be tables such as [part.nvme]",
                      document.place(parts->at));
  for (const TomlValue::Field& field : parts->fields) {
    const std::string what = fmt::format("[part.{}]", field.key);
    if (field.value.kind != TomlValue::Kind::kTable)
      return make_error(Code::kInvalid, "{}: {} is not a table", document.place(field.value.at), what);
    TomlFields fields(document, field.value, what);
    Part* known = nullptr;
    for (Part& one : parts_) known = one.name == field.key ? &one : known;
    if (known == nullptr && !fields.has("kind"))
      return fields.wrong("kind", "is missing: the catalogue has no part of this name")
          .with_hint("kind = \"drive\", \"link\", \"core\" or \"gpu\"");
    const std::string word = fields.word("kind", kKinds);
    const Kind kind = fields.has("kind") ? MR_TRY(parse_kind(word)) : known->kind;
    Part part = known != nullptr ? *known : Part();
    if (known != nullptr && known->kind != kind)
      return fields.wrong("kind",
                          fmt::format("is {}, but {} is a {}", word, field.key, kind_name(known->kind)));
    part.name = field.key;
    part.kind = kind;
    MR_TRY(read_part(fields, part));
    if (known != nullptr) {
      *known = std::move(part);
    } else {
      parts_.push_back(std::move(part));
    }
  }
  return {};
}

Result<Part> Catalogue::get(Kind kind, std::string_view name) const {
  std::vector<std::string> names;
  for (const Part& part : parts_) {
    if (part.kind != kind) continue;
    if (part.name == name) return part;
    names.push_back(part.name);
  }
  const std::string near = nearest_word(name, names);
  const std::string guess = near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near);
  return make_error(Code::kInvalid, "no {} is called \"{}\"", kind_name(kind), name)
      .with_hint(fmt::format("{}known: {}; millrace plan parts tells more, [part.NAME] in a plan adds one",
                             guess, fmt::join(names, ", ")));
}

}  // namespace millrace::plan
