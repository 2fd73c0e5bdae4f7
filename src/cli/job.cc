// millrace job: work that the nodes of a store do: list, show, watch, stop, retry, remove. Starting:
// job_start.cc
#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "cli/common.h"
#include "cli/job_text.h"
#include "cli/remote.h"
#include "jobs/worker.h"
#include "transfer/stores.h"

namespace millrace::cli {

namespace {

constexpr int64_t kWatchMs = 500;

struct JobFlags {
  std::string id;
  std::string endpoint;
};

Result<Json> ask(Shell& shell, const JobFlags& flags, const std::string& method, const std::string& what,
                 const Json& body) {
  return administer(shell, flags.endpoint, method, what, body);
}

Status list(Shell& shell, const JobFlags& flags) {
  const Json jobs = MR_TRY(ask(shell, flags, "GET", "jobs", Json()));
  if (shell.json)
    Shell::print(jobs);
  else
    fmt::print("{}", jobs_text(jobs));
  return {};
}

Status show(Shell& shell, const JobFlags& flags) {
  const Json job = MR_TRY(ask(shell, flags, "GET", "jobs/" + flags.id, Json()));
  if (shell.json)
    Shell::print(job);
  else
    fmt::print("{}", job_text(job));
  return {};
}

Status change(Shell& shell, const JobFlags& flags, const std::string& action) {
  const Json job = MR_TRY(ask(shell, flags, "POST", "jobs", {{"action", action}, {"id", flags.id}}));
  if (shell.json)
    Shell::print(job);
  else if (action == "remove")
    shell.say(fmt::format("job {} is forgotten; what it wrote stays", flags.id));
  else
    shell.say(fmt::format("job {} is {}", flags.id, job.at("state").get<std::string>()));
  return {};
}

Status stop(Shell& shell, const JobFlags& flags) {
  return change(shell, flags, "stop");
}
Status retry(Shell& shell, const JobFlags& flags) {
  return change(shell, flags, "retry");
}
Status remove(Shell& shell, const JobFlags& flags) {
  return change(shell, flags, "remove");
}
Status watch(Shell& shell, const JobFlags& flags) {
  return watch_job(shell, flags.endpoint, flags.id);
}

// Only nodes start this, for themselves.
Status work(Shell& shell) {
  static_cast<void>(shell);
  transfer::Settings settings = MR_TRY(transfer::read_settings());
  settings.user_agent = "millrace-job";
  transfer::Stores stores(std::move(settings));
  return jobs::run_worker(stores);
}

void add_endpoint(CLI::App& verb, JobFlags& flags) {
  verb.add_option("--at", flags.endpoint,
                  "Any node of the store; default MILLRACE_ENDPOINT or http://127.0.0.1:9400")
      ->type_name("URL");
}

}  // namespace

Status watch_job(Shell& shell, const std::string& endpoint, const std::string& id) {
  transfer::Stores* stores = MR_TRY(shell.stores());
  const transfer::Location node = MR_TRY(endpoint.empty() ? stores->find_default() : stores->find(endpoint));
  const auto bar = std::make_unique<JobLine>(shell);
  while (true) {
    const Json job = MR_TRY(administer(*node.store, {"GET", "jobs/" + id, "", Json()}));
    bar->draw(job);
    const auto state = job.at("state").get<std::string>();
    if (state == "running" || state == "stopping") {
      MR_TRY(node.store->client().pause(kWatchMs));
      continue;
    }
    bar->clear();
    if (shell.json) Shell::print(job);
    if (!shell.json) shell.say(job_summary(job));
    if (state == "done") return {};
    return make_error(Code::kUnavailable, "job {} {}: {}", id, state == "failed" ? "failed" : "was stopped",
                      job.value("message", ""))
        .with_hint("millrace job show " + id + " has the logs; millrace job retry " + id + " goes on");
  }
}

void add_job(CLI::App& app, Shell& shell) {
  CLI::App* job = app.add_subcommand("job", "Work on many objects by all nodes of a store");
  job->require_subcommand(1);
  job->fallthrough();
  add_job_start(*job, shell);
  const auto add = [&](const std::string& name, const std::string& help,
                       Status (*work)(Shell&, const JobFlags&), bool of_one) {
    CLI::App* verb = job->add_subcommand(name, help);
    verb->fallthrough();
    auto flags = std::make_shared<JobFlags>();
    if (of_one)
      verb->add_option("job", flags->id, "Its id, as job list shows it")->type_name("ID")->required();
    add_endpoint(*verb, *flags);
    verb->callback(
        [&shell, flags, work] { shell.action = [&shell, flags, work] { return work(shell, *flags); }; });
    return verb;
  };
  add("list", "Show all jobs: those under way and those that ended", list, false)
      ->footer("Examples:\n  millrace job list\n  millrace --json job list --at http://10.0.0.2:9400");
  add("show", "Show one job: stages, counters, what failed and why", show, true)
      ->footer("Example:\n  millrace job show 3f2a9c01");
  add("watch", "Follow a job until it ends; the exit code says how", watch, true)
      ->footer("Example:\n  millrace job watch 3f2a9c01 && echo done");
  add("stop", "End a job: nothing half written stays, whole outputs do", stop, true)
      ->footer("Example:\n  millrace job stop 3f2a9c01");
  add("retry", "Go on with a job that failed or was stopped: what is done stays done", retry, true)
      ->footer("Example:\n  millrace job retry 3f2a9c01");
  add("remove", "Forget a job that has ended; its outputs stay", remove, true)
      ->footer("Example:\n  millrace job remove 3f2a9c01");
  CLI::App* worker =
      job->add_subcommand("worker", "Run tasks for the node that started it; nodes do this by themselves");
  worker->fallthrough();
  worker->footer("Example:\n  millrace job worker < orders.jsonl");
  worker->callback([&shell] { shell.action = [&shell] { return work(shell); }; });
}

}  // namespace millrace::cli
