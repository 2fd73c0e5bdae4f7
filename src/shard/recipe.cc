// Walks directory trees, plans shards and writes them in parallel.
#include "shard/recipe.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "base/threads.h"

namespace millrace::shard {

namespace {

// Opens files below a root that nothing leads out of.
class Root {
 public:
  static Result<Root> open(const RecipeBook& book) {
    Root root;
    const int descriptor = ::open(book.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return make_system_error(errno, "opening directory " + book.root);
    root.directory_ = File(descriptor, book.root);
    root.reach_ = book.reach;
    return root;
  }

  // The size of a regular file; cheaper than opening it where links may be followed anyway.
  Result<uint64_t> file_size(const std::string& path) const {
    struct stat facts = {};
    if (reach_ == RecipeBook::Reach::kFollowLinks &&
        ::fstatat(directory_.descriptor(), path.c_str(), &facts, 0) == 0 && S_ISREG(facts.st_mode)) {
      return static_cast<uint64_t>(facts.st_size);
    }
    const File file = MR_TRY(open_file(path));
    return file.size();
  }

  Result<File> open_file(const std::string& path) const {
    const std::string name = directory_.name() + "/" + path;
    int descriptor = -1;
    if (reach_ == RecipeBook::Reach::kFollowLinks) {
      descriptor = ::openat(directory_.descriptor(), path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } else {
      open_how how = {};
      how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
      how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
      descriptor =
          static_cast<int>(::syscall(SYS_openat2, directory_.descriptor(), path.c_str(), &how, sizeof how));
    }
    if (descriptor < 0 && errno == EXDEV) {
      return make_error(Code::kDenied, "{} leads out of {}", path, directory_.name())
          .with_hint("name the directory that holds all files with --root");
    }
    if (descriptor < 0) return make_system_error(errno, "opening " + name);
    File file(descriptor, name);
    const bool regular = MR_TRY(file.is_regular());
    if (!regular) return make_error(Code::kInvalid, "{} is not a regular file", name);
    return file;
  }

 private:
  Root() = default;
  File directory_;
  RecipeBook::Reach reach_ = RecipeBook::Reach::kInsideRoot;
};

uint64_t tar_bytes_of(const SampleRecipe& sample) {
  uint64_t bytes = 0;
  for (const FieldRecipe& field : sample.fields) {
    const std::string name = fmt::format("{}.{}", sample.key, field.field);
    bytes += tar::header_bytes({.name = name, .size = field.size}) + tar::padded(field.size);
  }
  return bytes;
}

struct Stretch {
  size_t begin;
  size_t end;
};

std::vector<Stretch> plan_shards(const std::vector<SampleRecipe>& samples, const ShardLimits& limits) {
  std::vector<Stretch> shards;
  uint64_t bytes = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const uint64_t more = tar_bytes_of(samples[i]);
    const bool full = !shards.empty() && (i - shards.back().begin >= limits.max_samples ||
                                          bytes + more + 2 * tar::kBlock > limits.max_bytes);
    if (shards.empty() || full) {
      shards.push_back({i, i});
      bytes = 0;
    }
    bytes += more;
    shards.back().end = i + 1;
  }
  if (shards.empty()) shards.push_back({0, 0});
  return shards;
}

class Builder {
 public:
  Builder(const RecipeBook& book, const BuildOptions& options, const Root& root)
      : book_(book), options_(options), root_(root), shards_(plan_shards(book.samples, options.limits)) {}

  Result<std::vector<ShardSummary>> run() {
    if (!options_.name.numbered()) shards_ = {{0, book_.samples.size()}};
    summaries_.resize(shards_.size());
    MR_TRY(run_each(shards_.size(), options_.jobs, [this](size_t number) -> Status {
      summaries_[number] = MR_TRY(write_shard(number));
      return {};
    }));
    return std::move(summaries_);
  }

 private:
  Result<ShardSummary> write_shard(size_t number) {
    const auto shard = MR_TRY(ShardFile::create(options_.name.at(number), options_.output));
    std::vector<std::byte> buffer(256 << 10);
    for (size_t i = shards_[number].begin; i < shards_[number].end; ++i) {
      const SampleRecipe& sample = book_.samples[i];
      shard->begin_sample(sample.key);
      for (const FieldRecipe& field : sample.fields) {
        MR_TRY(shard->begin_field(field.field, field.size));
        MR_TRY(write_data(*shard, field, buffer));
        MR_TRY(shard->end_field());
        if (options_.progress != nullptr) options_.progress->add(field.size, 0);
      }
      shard->end_sample();
      if (options_.progress != nullptr) options_.progress->add(0, 1);
    }
    return shard->finish();
  }

  Status write_data(ShardFile& shard, const FieldRecipe& field, std::vector<std::byte>& buffer) {
    if (field.kind == FieldRecipe::Kind::kLiteral) return shard.field_data(field.text);
    File file = MR_TRY(root_.open_file(field.text));
    uint64_t left = field.size;
    while (true) {
      const size_t got = MR_TRY(file.read_some(buffer));
      if (got > left || (got == 0 && left > 0)) {
        return make_error(Code::kIo, "{} changed while it was read: it had {} bytes before", file.name(),
                          field.size)
            .with_hint("wait until its writer is done and start again");
      }
      if (got == 0) return {};
      left -= got;
      MR_TRY(shard.field_data({reinterpret_cast<const char*>(buffer.data()), got}));
    }
  }

  const RecipeBook& book_;
  const BuildOptions& options_;
  const Root& root_;
  std::vector<Stretch> shards_;
  std::vector<ShardSummary> summaries_;  // each entry written by the thread that took its number
};

}  // namespace

Result<RecipeBook> recipes_of_directory(const std::string& directory, tar::KeyRule key_rule) {
  namespace fs = std::filesystem;
  RecipeBook book;
  book.root = directory;
  book.reach = RecipeBook::Reach::kFollowLinks;
  struct Found {
    std::string key;
    FieldRecipe field;
  };
  std::vector<Found> found;
  std::error_code failure;
  fs::recursive_directory_iterator walk(directory, failure);
  for (; !failure && walk != fs::recursive_directory_iterator(); walk.increment(failure)) {
    std::error_code unknown;
    if (!walk->is_regular_file(unknown)) {
      // Dangling links, pipes, and links to directories, which are not followed.
      if (walk->is_symlink(unknown) || !walk->is_directory(unknown)) ++book.loose_files;
      continue;
    }
    const std::string path = walk->path().lexically_relative(directory).string();
    // .DS_Store and the like are nobody's data; in a tar they would be members of a sample without a name.
    const bool is_hidden = walk->path().filename().string().starts_with('.');
    const bool is_none = is_hidden || tar::is_archive_metadata(path);
    const auto split = is_none ? std::nullopt : tar::split_name(path, key_rule);
    if (!split) {
      ++book.loose_files;
      continue;
    }
    found.push_back({std::string(split->key), {lower_case(split->field), FieldRecipe::Kind::kFile, path, 0}});
  }
  if (failure) return make_error(Code::kIo, "walking {}: {}", directory, failure.message());
  std::ranges::sort(found, [](const Found& a, const Found& b) {
    return std::tie(a.key, a.field.field, a.field.text) < std::tie(b.key, b.field.field, b.field.text);
  });
  for (Found& one : found) {
    if (book.samples.empty() || book.samples.back().key != one.key) book.samples.push_back({one.key, {}});
    std::vector<FieldRecipe>& fields = book.samples.back().fields;
    if (!fields.empty() && fields.back().field == one.field.field) {
      return make_error(Code::kInvalid, "{}: \"{}\" and \"{}\" are the same field of one sample", directory,
                        fields.back().text, one.field.text)
          .with_hint("field names do not tell capitals apart: rename one of the files");
    }
    fields.push_back(std::move(one.field));
  }
  return book;
}

Status add_classes(RecipeBook& book, std::vector<std::string>& classes) {
  const auto class_of = [](const SampleRecipe& sample) { return sample.key.substr(0, sample.key.find('/')); };
  for (const SampleRecipe& sample : book.samples) {
    if (sample.key.find('/') == std::string::npos) {
      return make_error(Code::kInvalid, "{}: sample \"{}\" is in no class directory", book.root, sample.key)
          .with_hint("every file is in the directory of its class: data/cat/1.jpg");
    }
  }
  if (classes.empty()) {
    for (const SampleRecipe& sample : book.samples) classes.push_back(class_of(sample));
    std::ranges::sort(classes);
    classes.erase(std::ranges::unique(classes).begin(), classes.end());
  }
  std::map<std::string, size_t> numbers;
  for (size_t i = 0; i < classes.size(); ++i) numbers[classes[i]] = i;
  for (SampleRecipe& sample : book.samples) {
    const auto known = numbers.find(class_of(sample));
    if (known == numbers.end()) {
      return make_error(Code::kInvalid, "{}: class \"{}\" of sample \"{}\" is not in the classes file",
                        book.root, class_of(sample), sample.key)
          .with_hint("remove the classes file to number the classes anew");
    }
    if (std::ranges::any_of(sample.fields, [](const FieldRecipe& field) { return field.field == "cls"; })) {
      return make_error(Code::kInvalid, "{}: sample \"{}\" has a cls file already", book.root, sample.key)
          .with_hint("leave out --classes to keep the files there are");
    }
    const std::string number = std::to_string(known->second);
    sample.fields.push_back({"cls", FieldRecipe::Kind::kLiteral, number, number.size()});
    std::ranges::sort(sample.fields, {}, &FieldRecipe::field);
  }
  return {};
}

Status measure_files(RecipeBook& book) {
  const Root root = MR_TRY(Root::open(book));
  for (SampleRecipe& sample : book.samples) {
    for (FieldRecipe& field : sample.fields) {
      if (field.kind != FieldRecipe::Kind::kFile) {
        field.size = field.text.size();
        continue;
      }
      auto size = root.file_size(field.text);
      if (!size)
        return size.take_error().within(fmt::format("sample \"{}\", field {}", sample.key, field.field));
      field.size = size.take();
    }
  }
  return {};
}

Result<std::vector<ShardSummary>> build_shards(const RecipeBook& book, const BuildOptions& options) {
  const Root root = MR_TRY(Root::open(book));
  return Builder(book, options, root).run();
}

}  // namespace millrace::shard
