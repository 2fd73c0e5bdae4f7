// The words of a sandbox, and a trial of it.
#include "shard/sandbox.h"

#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "shard/command.h"

namespace millrace::shard {

namespace {

constexpr std::string_view kPath = "/usr/local/bin:/usr/bin:/bin";

// What programs of a Debian system need, and nothing of its users.
constexpr std::string_view kSystem[] = {"/opt",
                                        "/etc/alternatives",
                                        "/etc/fonts",
                                        "/etc/ImageMagick-6",
                                        "/etc/ld.so.cache",
                                        "/etc/ld.so.conf",
                                        "/etc/ld.so.conf.d",
                                        "/etc/localtime",
                                        "/etc/magic",
                                        "/etc/mime.types",
                                        "/etc/python3"};

std::vector<std::string> variables_of(const Sandbox& sandbox) {
  std::vector<std::string> variables = {"PATH=" + std::string(kPath), "HOME=" + sandbox.directory,
                                        "TMPDIR=" + sandbox.directory, "LANG=C.UTF-8"};
  variables.insert(variables.end(), sandbox.variables.begin(), sandbox.variables.end());
  return variables;
}

void append(std::vector<std::string>& words, std::initializer_list<std::string_view> more) {
  for (const std::string_view word : more) words.emplace_back(word);
}

}  // namespace

std::vector<std::string> confinement_words() {
  std::vector<std::string> words;
  append(words, {"bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent",
                 "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox", "--ro-bind", "/usr", "/usr"});
  for (const std::string name : {"bin", "sbin", "lib", "lib64"}) {
    std::error_code ignored;
    if (std::filesystem::is_symlink("/" + name, ignored)) {
      append(words, {"--symlink", "usr/" + name, "/" + name});
    } else {
      append(words, {"--ro-bind-try", "/" + name, "/" + name});
    }
  }
  for (const std::string_view path : kSystem) append(words, {"--ro-bind-try", path, path});
  return words;
}

Result<Confinement> parse_confinement(std::string_view text) {
  if (text == "bwrap") return Confinement::kBubblewrap;
  if (text == "none") return Confinement::kNone;
  return make_error(Code::kInvalid, "there is no sandbox \"{}\"", text).with_hint("bwrap or none");
}

std::vector<std::string> sandboxed(const Sandbox& sandbox, const std::vector<std::string>& words) {
  std::vector<std::string> all;
  if (sandbox.confinement == Confinement::kBubblewrap) {
    all = confinement_words();
    append(all, {"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"});
    append(all, {"--bind", sandbox.directory, sandbox.directory});
    for (const std::string& path : sandbox.readable) append(all, {"--ro-bind", path, path});
    append(all, {"--chdir", sandbox.directory, "--"});
  }
  append(all, {"prlimit", "--core=0", "--as=" + std::to_string(sandbox.address_space), "--", "env", "-i"});
  for (std::string& variable : variables_of(sandbox)) all.push_back(std::move(variable));
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Status check_confinement(Confinement confinement) {
  if (confinement == Confinement::kNone) return {};
  auto started = Command::start({{"bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"}, "", "", false});
  const Status worked = started ? started->finish() : Status(started.take_error());
  if (worked) return {};
  return make_error(Code::kUnsupported, "this machine makes no sandboxes: {}", worked.error().message())
      .with_hint(
          "install bubblewrap, and allow user namespaces; or, if you trust whoever starts jobs, start "
          "nodes with --set job_sandbox=none");
}

}  // namespace millrace::shard
