// Decodes single fields with the engine, for the interfaces that give samples one by one.
#include <pybind11/numpy.h>

#include "decode/image.h"
#include "decode/inflate.h"
#include "python/bindings.h"

namespace millrace::python {

namespace {

// Pixels as rows of uint8: (height, width), or (height, width, channels).
py::array_t<uint8_t> decode_image(const py::bytes& encoded, size_t channels) {
  if (channels != 1 && channels != 3 && channels != 4)
    raise(make_error(Code::kInvalid, "an image has 1, 3 or 4 channels, not {}", channels));
  // One per thread keeps the memory of the codecs.
  thread_local decode::ImageDecoder decoder;
  auto pixels = std::make_unique<decode::Pixels>();
  {
    const std::string_view bytes(encoded);
    const py::gil_scoped_release release;
    decode::DecodeOptions options;
    options.channels = static_cast<decode::Channels>(channels);
    auto decoded = decoder.decode(bytes, options, *pixels);
    if (!decoded) {
      const py::gil_scoped_acquire acquire;
      raise(decoded.error());
    }
  }
  std::vector<size_t> shape{pixels->size().height, pixels->size().width};
  if (channels > 1) shape.push_back(channels);
  const uint8_t* const rows = pixels->row(0);
  const py::capsule owner(pixels.release(), [](void* own) { delete static_cast<decode::Pixels*>(own); });
  return py::array_t<uint8_t>(shape, rows, owner);
}

}  // namespace

void bind_decoding(py::module_& module) {
  module.def("decode_image", &decode_image, py::arg("encoded"), py::arg("channels"));
  module.def("gunzip", [](const std::string& bytes, uint64_t most) {
    return py::bytes(value_or_raise(decode::gunzip(bytes, most)));
  });
}

}  // namespace millrace::python
