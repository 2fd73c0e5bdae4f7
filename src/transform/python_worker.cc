// The worker's program, and the messages to and from it.
#include "transform/python_worker.h"

#include <nlohmann/json.hpp>

#include "transform/sample_blocks.h"

namespace millrace::transform {

namespace {

using Json = nlohmann::ordered_json;

template <typename Number>
void append_number(std::string& into, Number value) {
  for (size_t i = 0; i < sizeof(Number); ++i) into += static_cast<char>(value >> (8 * i) & 0xff);
}

template <typename Number>
Number read_number(std::string_view bytes) {
  Number value = 0;
  for (size_t i = 0; i < sizeof(Number); ++i)
    value |= static_cast<Number>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

std::string message(const Json& json, uint64_t bytes) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string whole;
  append_number(whole, static_cast<uint32_t>(text.size()));
  append_number(whole, bytes);
  return whole + text;
}

Error senseless() {
  return make_error(Code::kInvalid, "the worker's answer makes no sense");
}

// One sample of an answer; its fields lie at the start of `rest`, which is shortened.
Status append_answered(MadeSamples& made, const Json& sample, std::string_view& rest) {
  if (!sample.is_object() || !sample.value("key", Json()).is_string() ||
      !sample.value("fields", Json()).is_array())
    return senseless();
  const std::string key = sample.at("key").get<std::string>();
  std::vector<std::string> names;
  std::vector<std::string_view> values;
  for (const Json& field : sample.at("fields")) {
    if (!field.is_array() || field.size() != 2 || !field[0].is_string() || !field[1].is_number_unsigned())
      return senseless();
    const auto size = field[1].get<uint64_t>();
    if (size > rest.size()) return senseless();
    names.push_back(field[0].get<std::string>());
    values.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  std::vector<MadeField> fields;
  for (size_t i = 0; i < names.size(); ++i) fields.push_back({names[i], values[i]});
  MR_TRY(append_sample(made.blocks, key, fields));
  ++made.samples;
  return {};
}

}  // namespace

const std::string_view kPythonWorker = R"python(
import json, os, struct, sys, time, traceback, types
inp, out = os.fdopen(0, "rb", 1 << 20), os.fdopen(os.dup(1), "wb", 1 << 20)
os.dup2(2, 1)  # what the function prints goes to its last words

def exactly(count):
    data = inp.read(count)
    if len(data) != count:
        sys.exit(0)
    return data

def receive():
    text, count = struct.unpack("<IQ", exactly(12))
    return json.loads(exactly(text)), exactly(count)

def send(what, parts=()):
    what["cpu"] = time.process_time()
    text = json.dumps(what).encode()
    out.write(struct.pack("<IQ", len(text), sum(map(len, parts))))
    out.write(text)
    for part in parts:
        out.write(part)
    out.flush()

def as_bytes(field, value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    if type(value).__module__ == "numpy":
        import io, numpy
        file = io.BytesIO()
        numpy.save(file, numpy.ascontiguousarray(value), allow_pickle=False)
        return file.getvalue()
    if isinstance(value, (bool, int, float)) and not field.endswith("json"):
        return str(value).encode()
    if isinstance(value, (dict, list, int, float, bool, type(None))) and field.endswith("json"):
        return json.dumps(value).encode()
    raise TypeError(f"the field {field} is of type {type(value).__name__}: bytes, str, numbers and numpy arrays are known, and JSON for names that end in json")

def samples_of(result, key):
    if result is None:
        return
    for sample in [result] if isinstance(result, dict) else result:
        if not isinstance(sample, dict):
            raise TypeError(f"the function gave {type(sample).__name__}, not a dict, a list of them, or None")
        fields = [(name.lower(), as_bytes(name.lower(), value)) for name, value in sample.items() if not name.startswith("__")]
        yield str(sample.get("__key__", key)), fields

def say(error):
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    send({"error": "".join(lines)[-3000:]})

module = types.ModuleType("millrace")
module.transform = lambda function=None, **options: function if function else (lambda inner: inner)
sys.modules.setdefault("millrace", module)
setup, _ = receive()
try:
    space = {"__name__": "transform"}
    exec(compile(setup["source"], "transform.py", "exec"), space)
    function = space.get(setup["function"])
    if not callable(function):
        raise NameError(f"the source defines no function {setup['function']}")
    send({"ready": True})
except BaseException as error:
    say(error)
    sys.exit(1)
while True:
    head, data = receive()
    sample, at = {"__key__": head["key"]}, 0
    for name, size in head["fields"]:
        sample[name] = data[at:at + size]
        at += size
    try:
        made = list(samples_of(function(sample), head["key"]))
        send({"samples": [{"key": key, "fields": [[name, len(value)] for name, value in fields]} for key, fields in made]},
             [value for _, fields in made for _, value in fields])
    except Exception as error:
        say(error)
)python";

MessageHead parse_message_head(std::string_view head) {
  return {read_number<uint32_t>(head), read_number<uint64_t>(head.substr(4))};
}

std::string source_message(std::string_view source, std::string_view function) {
  return message({{"source", source}, {"function", function}}, 0);
}

std::string sample_message(const tar::Sample& sample) {
  Json fields = Json::array();
  uint64_t bytes = 0;
  for (const tar::Field& field : sample.fields) {
    fields.push_back({field.field, field.bytes.size()});
    bytes += field.bytes.size();
  }
  std::string whole = message({{"key", sample.key}, {"fields", std::move(fields)}}, bytes);
  whole.reserve(whole.size() + bytes);
  for (const tar::Field& field : sample.fields) whole += field.bytes;
  return whole;
}

Result<PythonAnswer> parse_python_answer(std::string_view text, std::string_view bytes) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return senseless();
  PythonAnswer answer;
  if (const Json cpu = json.value("cpu", Json(0)); cpu.is_number()) answer.cpu_seconds = cpu.get<double>();
  if (json.contains("error")) {
    if (!json.at("error").is_string()) return senseless();
    answer.error = json.at("error").get<std::string>();
    if (answer.error.empty()) answer.error = "the function failed";
    return answer;
  }
  if (json.contains("ready")) return answer;
  const Json samples = json.value("samples", Json());
  if (!samples.is_array()) return senseless();
  for (const Json& sample : samples) MR_TRY(append_answered(answer.made, sample, bytes));
  if (!bytes.empty()) return senseless();
  return answer;
}

}  // namespace millrace::transform
