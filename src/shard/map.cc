// Runs commands in private directories and puts their results back in order.
#include "shard/map.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>

#include "base/buffer.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/queue.h"
#include "base/text.h"
#include "base/threads.h"
#include "shard/command.h"

namespace millrace::shard {

namespace {

namespace fs = std::filesystem;

struct Made {
  std::string key;
  std::map<std::string, std::string> fields;
};

// One sample on its way: the input, then what became of it.
struct Task {
  std::string key;
  std::string blocks;
  Charge charge;
  // Written by a worker, with Mapper's mutex; read by others once it is true, which they see by that mutex.
  bool done = false;
  std::optional<Error> failure;
  std::vector<Made> results;
};

Status write_new_file(const std::string& path, std::string_view bytes) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return make_system_error(errno, "creating " + path);
  File file(descriptor, path);
  return file.write_all(bytes);
}

// What the command prints goes to standard error: standard output may be our tar stream.
Status run_command(const std::vector<std::string>& words, const std::string& directory,
                   const std::string& key) {
  Command command = MR_TRY(Command::start({words, directory, "MILLRACE_KEY=" + key}));
  return command.finish();
}

// Which result a file belongs to: nothing for scratch files.
std::optional<std::pair<std::string, std::string>> key_and_field(const std::string& name,
                                                                 const std::string& key, Fanout fanout) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos || !name.starts_with("sample")) return std::nullopt;
  const std::string middle = name.substr(6, dot - 6);
  const std::string field = lower_case(name.substr(dot + 1));
  if (fanout == Fanout::kOne && middle.empty()) return std::pair(key, field);
  if (fanout == Fanout::kMany && middle.size() > 1 && middle[0] == '-') return std::pair(key + middle, field);
  return std::nullopt;
}

Result<std::vector<Made>> collect(const std::string& directory, const std::string& key, Fanout fanout,
                                  uint64_t most_bytes) {
  std::map<std::string, Made> by_key;
  std::error_code failure;
  for (fs::directory_iterator entry(directory, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    const auto place = key_and_field(name, key, fanout);
    std::error_code unknown;
    if (!place || entry->symlink_status(unknown).type() != fs::file_type::regular) continue;
    Made& made = by_key[place->first];
    made.key = place->first;
    const auto [known, added] = made.fields.try_emplace(place->second);
    if (!added)
      return make_error(Code::kCorrupt, "the command left two files for the field {}", place->second);
    known->second = MR_TRY(read_file(entry->path().string(), most_bytes));
  }
  if (failure) return make_error(Code::kIo, "reading results in {}: {}", directory, failure.message());
  std::vector<Made> results;
  for (auto& [unused, made] : by_key) results.push_back(std::move(made));
  return results;
}

class Mapper {
 public:
  Mapper(SampleStream& samples, const MapOptions& options, const MapCalls& calls)
      : samples_(samples), options_(options), calls_(calls), budget_(options.memory), waiting_(kMaxThreads) {}

  Result<MapReport> run() {
    Status result;
    MR_TRY(run_threads_beside(
        options_.jobs, [this] { work(); },
        [&](unsigned started) {
          if (started > 0) result = feed_and_emit(size_t{2} * started);
          waiting_.close();
        }));
    if (!result) return result.take_error();
    return report_;
  }

 private:
  Status feed_and_emit(size_t most_in_flight) {
    while (true) {
      const tar::Sample* sample = MR_TRY(samples_.next());
      if (sample == nullptr) break;
      ++report_.in;
      auto task = std::make_unique<Task>();
      task->key = sample->key;
      MR_TRY(tar::append_blocks(task->blocks, *sample));
      // Room for this sample: first by finishing what came before it.
      const uint64_t cost = std::min<uint64_t>(3 * task->blocks.size() + 4096, options_.memory);
      while (!in_flight_.empty() &&
             (in_flight_.size() >= most_in_flight || budget_.used() + cost > options_.memory)) {
        MR_TRY(emit_oldest());
      }
      task->charge = MR_TRY(budget_.take(cost));
      in_flight_.push_back(std::move(task));
      const bool taken = waiting_.push(in_flight_.back().get());
      MR_ASSERT(taken);
    }
    while (!in_flight_.empty()) MR_TRY(emit_oldest());
    return {};
  }

  Status emit_oldest() {
    Task& task = *in_flight_.front();
    {
      UniqueLock lock(mutex_);
      finished_.wait(lock, [&]() MR_REQUIRES(mutex_) { return task.done; });
    }
    if (task.failure) {
      ++report_.failed;
      if (options_.on_error == OnCommandError::kAbort) {
        return std::move(*task.failure).with_hint("go on past failures with --on-error skip or keep");
      }
      if (options_.on_error == OnCommandError::kKeep) {
        tar::SampleParser parser(options_.key_rule);
        const tar::Sample* sample = MR_TRY(parser.parse(task.blocks));
        ++report_.out;
        MR_TRY(calls_.kept(*sample));
      }
    } else if (task.results.empty()) {
      ++report_.dropped;
    }
    for (const Made& made : task.results) {
      std::vector<NewField> fields;
      for (const auto& [field, bytes] : made.fields) fields.push_back({field, bytes});
      ++report_.out;
      MR_TRY(calls_.made(made.key, fields));
    }
    in_flight_.pop_front();
    return {};
  }

  void work() {
    while (auto next = waiting_.pop()) {
      Task& task = **next;
      auto results = run_one(task);
      {
        const MutexLock lock(mutex_);
        if (results) {
          task.results = results.take();
        } else {
          task.failure = results.take_error().within(fmt::format("sample \"{}\"", task.key));
        }
        task.done = true;
      }
      finished_.notify_one();
    }
  }

  Result<std::vector<Made>> run_one(const Task& task) {
    const PrivateDirectory directory = MR_TRY(PrivateDirectory::make(options_.directory));
    tar::SampleParser parser(options_.key_rule);
    const tar::Sample* sample = MR_TRY(parser.parse(task.blocks));
    for (const tar::Field& field : sample->fields) {
      MR_TRY(write_new_file(fmt::format("{}/sample.{}", directory.path(), field.field), field.bytes));
    }
    MR_TRY(run_command(options_.command, directory.path(), task.key));
    return collect(directory.path(), task.key, options_.fanout, options_.memory);
  }

  SampleStream& samples_;
  const MapOptions& options_;
  const MapCalls& calls_;
  Budget budget_;
  std::deque<std::unique_ptr<Task>> in_flight_;  // in the order of the input
  BoundedQueue<Task*> waiting_;
  Mutex mutex_;
  ConditionVariable finished_;
  MapReport report_;
};

}  // namespace

Result<PrivateDirectory> PrivateDirectory::make(const std::string& parent) {
  PrivateDirectory directory;
  const std::string path = fmt::format("{}/millrace-{}", parent, make_id());
  if (::mkdir(path.c_str(), 0700) != 0) return make_system_error(errno, "creating directory " + path);
  directory.path_ = path;
  return directory;
}

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

PrivateDirectory::~PrivateDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<MapReport> map_samples(SampleStream& samples, const MapOptions& options, const MapCalls& calls) {
  if (options.command.empty()) return make_error(Code::kInvalid, "there is no command to run");
  return Mapper(samples, options, calls).run();
}

}  // namespace millrace::shard
