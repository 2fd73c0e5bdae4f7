// millrace put: uploads files to objects.
#include "cli/copying.h"

namespace millrace::cli {

void add_put(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("put", "Send files to a store");
  verb->fallthrough();
  auto flags = std::make_shared<CopyFlags>();
  flags->add_to(*verb, shell);
  verb->footer(
      "A destination that ends in / (or is a bucket) takes each file under its own name. Large files go up "
      "in parts;\n"
      "interrupted, the same command goes on with what has arrived.\n"
      "Examples:\n"
      "  millrace put train-000000.tar mr://imagenet/\n"
      "  millrace put 'train-{000000..000099}.tar' http://store:9400/imagenet/train/\n"
      "  millrace put -r photos s3://bucket/photos\n"
      "  tar -cf - photos | millrace put - mr://imagenet/photos.tar");
  verb->callback([&shell, flags] {
    shell.action = [&shell, flags] { return run_copies(shell, *flags, Direction::kUp); };
  });
}

}  // namespace millrace::cli
