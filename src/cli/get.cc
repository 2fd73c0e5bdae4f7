// millrace get: downloads objects to files.
#include "cli/copying.h"

namespace millrace::cli {

void add_get(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("get", "Fetch objects into files");
  verb->fallthrough();
  auto flags = std::make_shared<CopyFlags>();
  flags->add_to(*verb, shell);
  verb->footer(
      "Large objects come in parallel ranges; interrupted, the same command goes on where it stopped, if the "
      "object\n"
      "is still the same. Where the store has a CRC32C it is compared.\n"
      "Examples:\n"
      "  millrace get mr://imagenet/train-000000.tar .\n"
      "  millrace get 'http://store:9400/imagenet/train-{000000..000099}.tar' data/\n"
      "  millrace get 'mr://imagenet/val-*.tar' data/\n"
      "  millrace get -r s3://bucket/photos photos\n"
      "  millrace get mr://imagenet/train-000000.tar - | tar -t");
  verb->callback([&shell, flags] {
    shell.action = [&shell, flags] { return run_copies(shell, *flags, Direction::kDown); };
  });
}

}  // namespace millrace::cli
