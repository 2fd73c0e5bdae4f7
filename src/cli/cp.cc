// millrace cp: copies files or objects; at least one side is in a store.
#include "cli/copying.h"

namespace millrace::cli {

void add_cp(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("cp", "Copy between files and stores, or between stores");
  verb->fallthrough();
  auto flags = std::make_shared<CopyFlags>();
  flags->add_to(*verb, shell);
  verb->footer(
      "Inside one store nothing passes through this machine.\n"
      "Examples:\n"
      "  millrace cp mr://imagenet/a.tar mr://archive/a.tar\n"
      "  millrace cp -r s3://bucket/train mr://imagenet/train\n"
      "  millrace cp notes.txt mr://imagenet/");
  verb->callback([&shell, flags] {
    shell.action = [&shell, flags] { return run_copies(shell, *flags, Direction::kAny); };
  });
}

}  // namespace millrace::cli
