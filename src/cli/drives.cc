// millrace drives: lists, adds, drains and removes the drives of a running node.
#include <filesystem>

#include "base/units.h"
#include "cli/common.h"
#include "cli/copying.h"
#include "cli/remote.h"

namespace millrace::cli {

namespace {

struct DriveFlags {
  std::string endpoint;
  std::string path;
  bool take_back = false;
};

void show(Shell& shell, const Json& answer) {
  if (shell.json) {
    Shell::print(answer);
    return;
  }
  for (const Json& drive : answer.at("drives")) {
    const std::string state = drive.at("state").get<std::string>();
    fmt::print("{}  {}  {} of {} free  {} objects{}{}\n", drive.at("path").get<std::string>(), state,
               format_bytes(drive.at("free_bytes").get<uint64_t>()),
               format_bytes(drive.at("total_bytes").get<uint64_t>()),
               format_count(drive.at("objects").get<uint64_t>()),
               drive.contains("drain_left")
                   ? fmt::format("  {} to move", format_count(drive.at("drain_left").get<uint64_t>()))
                   : "",
               drive.contains("reason") ? "  " + drive.at("reason").get<std::string>() : "");
  }
}

Status list(Shell& shell, const DriveFlags& flags) {
  show(shell, MR_TRY(administer(shell, flags.endpoint, "GET", "drives", Json())));
  return {};
}

Status change(Shell& shell, const DriveFlags& flags, const std::string& action) {
  // What is a directory here is meant from here; all else is the node's own name for it.
  std::error_code absent;
  const bool is_here = std::filesystem::is_directory(flags.path, absent);
  const std::string path =
      is_here ? std::filesystem::absolute(flags.path).lexically_normal().string() : flags.path;
  if (shell.dry_run) {
    say_step(shell, action + " the drive", path);
    return {};
  }
  Json asked = {{"action", action}, {"path", path}};
  if (flags.take_back) asked["take_back"] = true;
  show(shell, MR_TRY(administer(shell, flags.endpoint, "POST", "drives", asked)));
  return {};
}

}  // namespace

void add_drives(CLI::App& app, Shell& shell) {
  CLI::App* drives = app.add_subcommand("drives", "The drives of a running node: list, add, drain, remove");
  drives->require_subcommand(1);
  drives->fallthrough();
  const auto add = [&](const std::string& name, const std::string& help) {
    CLI::App* verb = drives->add_subcommand(name, help);
    verb->fallthrough();
    auto flags = std::make_shared<DriveFlags>();
    verb->add_option("--endpoint", flags->endpoint,
                     "The node; default MILLRACE_ENDPOINT or http://127.0.0.1:9400")
        ->type_name("URL");
    if (name != "list") {
      verb->add_option("path", flags->path, "The drive's directory, as the node sees it")
          ->type_name("DIR")
          ->required();
      add_dry_run(*verb, shell);
    }
    if (name == "add")
      verb->add_flag(
          "--take-back", flags->take_back,
          "Also a drive that was removed while it was missing: what was deleted since may come back");
    verb->callback([&shell, flags, name] {
      shell.action = [&shell, flags, name] {
        return name == "list" ? list(shell, *flags) : change(shell, *flags, name);
      };
    });
    return verb;
  };
  add("list", "Show the drives and how full they are");
  add("add", "Take a drive into service, also one that drains")
      ->footer("Example:\n  millrace drives add /mnt/c");
  add("drain", "Move a drive's objects to the others; drives list shows how far it is");
  add("remove", "Take a drained drive out of service");
}

}  // namespace millrace::cli
