// Makes the JSON of a description out of flags; the node judges it.
#include "cli/transform_flags.h"

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "transform/description.h"

namespace millrace::cli {

namespace {

Result<Json> image_json(const TransformFlags& flags) {
  Json image = Json::object();
  const size_t colon = flags.image.find(':');
  const std::string fields = flags.image.substr(0, colon);
  if (!fields.empty()) image["fields"] = fields;
  if (colon != std::string::npos) image["options"] = flags.image.substr(colon + 1);
  if (!flags.to.empty()) image["to"] = flags.to;
  if (flags.quality) image["quality"] = *flags.quality;
  if (flags.stack) image["stack"] = *flags.stack;
  if (!flags.label.empty()) image["label"] = flags.label;
  return image;
}

// "steps.py" or "steps.py:resize"; without a name the one function that is marked or the only one there.
Result<Json> python_json(const std::string& text) {
  const size_t colon = text.rfind(':');
  const bool is_named = colon != std::string::npos && text.find('/', colon) == std::string::npos;
  const std::string path = is_named ? text.substr(0, colon) : text;
  Json json = {{"kind", "python"}};
  std::string source = MR_TRY(read_file(path, transform::kMostSourceBytes));
  if (!is_utf8(source)) return make_error(Code::kInvalid, "{} is not UTF-8", path);
  if (is_named) {
    json["function"] = text.substr(colon + 1);
  } else {
    constexpr std::string_view kMark = "@millrace.transform";
    const size_t mark = source.find(kMark);
    const size_t begin = mark == std::string::npos ? mark : source.find("def ", mark);
    const size_t end = begin == std::string::npos ? begin : source.find('(', begin);
    if (end == std::string::npos)
      return make_error(Code::kInvalid, "{} marks no function with {}", path, kMark)
          .with_hint(fmt::format("--python {}:FUNCTION names one", path));
    json["function"] = std::string(trim(source.substr(begin + 4, end - begin - 4)));
  }
  json["source"] = std::move(source);
  return json;
}

}  // namespace

void TransformFlags::add_kinds_to(CLI::App& verb) {
  verb.add_option("--image", image,
                  "Images: FIELDS:OPTIONS as for millrace load, such as 'jpg;png:size=224,crop=center'");
  verb.add_option("--to", to, "What an image becomes (default npy)")->type_name("npy|jpg|png");
  verb.add_option("--quality", quality, "Of JPEGs, 1 to 100 (default 90)")->type_name("N");
  verb.add_option("--stack", stack, "So many samples become one, with one array of all their images")
      ->type_name("N");
  verb.add_option("--label", label, "With --stack: a field of whole numbers that become one array");
  verb.add_option("--select", select, "Which fields stay, and their names: 'jpg;jpeg=image cls'");
  verb.add_flag(
      "--command", is_command,
      "The program behind -- runs for each sample, in a directory with its fields as files sample.jpg, "
      "sample.cls, ... as with millrace tar map");
  verb.add_flag("--filter", is_filter, "The program behind -- reads a tar and writes a tar");
  verb.add_option(
      "-c", shell_command,
      "Instead of words behind --: a command line for /bin/sh inside the sandbox; with --command or "
      "--filter");
  verb.add_flag("--many", many,
                "With --command: sample-A.*, sample-B.*, ... become samples KEY-A, KEY-B, ...");
  verb.add_option("--python", python,
                  "A function of a Python file: FILE:FUNCTION, or FILE with @millrace.transform")
      ->type_name("FILE");
  verb.add_option("--service", service, "An address that takes a tar as POST and answers with a tar")
      ->type_name("URL");
  verb.add_option("--description", file, "All of it as JSON, as millrace --json transform show gives it")
      ->type_name("FILE");
}

void TransformFlags::add_to(CLI::App& verb) {
  add_kinds_to(verb);
  verb.add_option(
          "--on-error", on_error,
          "Where it fails for a sample: abort the run (default), skip the sample, or keep it as it was")
      ->type_name("abort|skip|keep");
  verb.add_flag("--keep", keep, "Store results of whole shards until their room is needed");
  verb.add_option("--note", note, "What it is for");
  verb.add_option("--memory", memory, "Limit of the sandbox (default 1GiB)")->type_name("SIZE");
  verb.add_option("--disk", disk, "Limit of its private directory, which is memory (default 256MiB)")
      ->type_name("SIZE");
  verb.add_option("--most-output", most_output, "Limit of what comes out (default 16GiB)")->type_name("SIZE");
  verb.add_option("--cpu-seconds", cpu_seconds, "Limit of processor time of each process (default 600)")
      ->type_name("N");
  verb.add_option("--seconds", seconds,
                  "Limit of time for a shard, for a Python function for a sample (default 600)")
      ->type_name("N");
  verb.add_option("--processes", processes, "Limit of processes and threads (default 64)")->type_name("N");
  verb.footer(
      "Examples:\n"
      "  millrace transform add thumbs --image 'jpg;png:size=224' --to jpg --keep\n"
      "  millrace transform add tensors --image jpg:resize=256,size=224,layout=CHW --select 'jpg cls'\n"
      "  millrace transform add grey --command -- convert sample.jpg -colorspace gray sample.jpg\n"
      "  millrace transform add upper --filter -- python3 -c 'import sys; ...'\n"
      "  millrace transform add clean --python steps.py:clean --on-error skip\n"
      "  millrace transform add pod --service http://10.0.0.7:8000/transform");
}

Result<Json> TransformFlags::kind(const std::vector<std::string>& words) const {
  const int kinds = (!image.empty() || !select.empty()) + is_command + is_filter + !python.empty() +
                    !service.empty() + !file.empty();
  if (kinds != 1)
    return make_error(Code::kInvalid, "a transform is of one kind, and {} are named", kinds)
        .with_hint("one of --image (with --select), --command, --filter, --python, --service, --description");
  if (!file.empty()) {
    const std::string text = MR_TRY(read_file(file, transform::kMostDescriptionBytes));
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) return make_error(Code::kInvalid, "{} is not a JSON object", file);
    if (json.contains("description")) json = Json(json.at("description"));
    return json;
  }
  if (is_command || is_filter) {
    if (words.empty() == shell_command.empty())
      return make_error(Code::kInvalid, "give the program with -c or behind --, one of them");
    Json json = {{"kind", is_filter ? "filter" : "command"}, {"command", words}};
    if (!shell_command.empty()) json["command"] = {"/bin/sh", "-c", shell_command};
    if (many) json["many"] = true;
    return json;
  }
  if (!python.empty()) return python_json(python);
  if (!service.empty()) return Json{{"kind", "service"}, {"url", service}};
  Json json = {{"kind", "images"}};
  if (!select.empty()) json["select"] = select;
  if (!image.empty()) json["image"] = MR_TRY(image_json(*this));
  return json;
}

Result<Json> TransformFlags::limits() const {
  Json json = Json::object();
  for (const auto& [limit, text] : {std::pair("memory", memory), {"disk", disk}, {"output", most_output}}) {
    if (!text.empty()) json[limit] = MR_TRY(parse_bytes(text).within(limit));
  }
  for (const auto& [limit, number] :
       {std::pair("cpu_seconds", cpu_seconds), {"seconds", seconds}, {"processes", processes}}) {
    if (number) json[limit] = *number;
  }
  return json;
}

Result<Json> TransformFlags::description(const std::vector<std::string>& words) const {
  Json json = MR_TRY(kind(words));
  const bool is_program = is_command || is_filter;
  if (!is_program && (!words.empty() || !shell_command.empty() || many))
    return make_error(Code::kInvalid, "-c, --many and words behind -- go with --command and --filter");
  const bool has_image_flag = !to.empty() || quality || stack || !label.empty();
  if (image.empty() && has_image_flag)
    return make_error(Code::kInvalid, "--to, --quality, --stack and --label go with --image");
  Json limited = MR_TRY(limits());
  if (!limited.empty()) json["limits"] = std::move(limited);
  if (!on_error.empty()) json["on_error"] = on_error;
  if (keep) json["keep"] = true;
  if (!note.empty()) json["note"] = note;
  return json;
}

}  // namespace millrace::cli
