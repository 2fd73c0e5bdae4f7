// Writes pictures; rsvg-convert renders PNG.
#include "cli/picture.h"

#include "base/file.h"
#include "shard/command.h"

namespace millrace::cli {

namespace {

Status run_renderer(const std::string& svg_path, const std::string& png_path) {
  auto renderer = shard::Command::start(
      {{"rsvg-convert", "--format=png", "--zoom=2", "--output=" + png_path, svg_path}, "", "", false});
  if (!renderer && renderer.error().code() == Code::kNotFound) {
    return make_error(Code::kUnavailable, "cannot draw {}: rsvg-convert is not installed", png_path)
        .with_hint("apt install librsvg2-bin, or -o with a name that ends in .svg");
  }
  if (!renderer) return renderer.take_error();
  auto drawn = renderer->finish();
  if (!drawn) {
    return drawn.take_error()
        .within("cannot draw " + png_path)
        .with_hint("-o with a name that ends in .svg needs no renderer");
  }
  return {};
}

}  // namespace

Status write_picture(const std::string& path, const std::string& svg) {
  if (path.ends_with(".svg")) return write_file_atomically(path, svg);
  if (!path.ends_with(".png"))
    return make_error(Code::kInvalid, "{} ends neither in .svg nor in .png", path).with_hint("-o flow.svg");
  const std::string svg_path = path + ".part.svg";
  MR_TRY(write_file_atomically(svg_path, svg));
  const Status drawn = run_renderer(svg_path, path);
  MR_TRY(remove_file_if_present(svg_path));
  if (!drawn) return drawn.error().copy();
  return {};
}

}  // namespace millrace::cli
