// Records out of mappers, groups into reducers.
#include "shard/mapreduce.h"

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "shard/filter.h"
#include "shard/sort.h"
#include "shard/stream.h"

namespace millrace::shard {

namespace {

constexpr uint64_t kMostCounterBytes = 1 << 20;

// Cuts the members of a mapper's tar into records, and writes each as a sample.
class RecordWriter {
 public:
  RecordWriter(ShardFile& file, uint64_t number, const MapReducePlace& place)
      : file_(file), number_(number), place_(place) {}

  Status take(tar::ByteSource& source, const std::string& name) {
    tar::StreamWindow window(source, place_.memory);
    tar::MemberReader members(window, name);
    while (const tar::Member* member = MR_TRY(members.next())) MR_TRY(add(members, *member));
    return flush();
  }
  uint64_t records() const { return records_; }

 private:
  struct Field {
    std::string name;
    std::string bytes;
  };

  Status add(tar::MemberReader& members, const tar::Member& member) {
    const auto split = tar::split_name(member.name, place_.input.read.group.key_rule);
    if (!member.is_file || !split || tar::is_archive_metadata(member.name)) return {};
    const std::string field = lower_case(split->field);
    if (field == kGroupField)
      return make_error(Code::kInvalid, "a record cannot have a field {}", kGroupField);
    const bool repeats = std::ranges::any_of(fields_, [&](const Field& one) { return one.name == field; });
    if (split->key != key_ || repeats) MR_TRY(flush());
    key_ = split->key;
    Field& added = fields_.emplace_back(Field{field, {}});
    for (std::string_view piece = MR_TRY(members.next_piece()); !piece.empty();
         piece = MR_TRY(members.next_piece())) {
      bytes_ += piece.size();
      if (bytes_ > place_.memory)
        return make_error(Code::kTooLarge, "a record of the key \"{}\" is larger than the memory for it",
                          printable(key_, 200))
            .with_hint("give more with --memory");
      added.bytes += piece;
    }
    return {};
  }

  Status flush() {
    if (fields_.empty()) return {};
    std::vector<NewField> fields;
    for (const Field& field : fields_) fields.push_back({field.name, field.bytes});
    fields.push_back({kGroupField, key_});
    MR_TRY(file_.add(fmt::format("{:07}-{:010}", number_, records_), fields));
    ++records_;
    fields_.clear();
    bytes_ = 0;
    return {};
  }

  ShardFile& file_;
  const uint64_t number_;
  const MapReducePlace& place_;
  std::string key_;
  std::vector<Field> fields_;
  uint64_t bytes_ = 0;
  uint64_t records_ = 0;
};

Result<std::string> group_of(const tar::Sample& record) {
  const tar::Field* const group = record.find(kGroupField);
  if (group == nullptr)
    return make_error(Code::kCorrupt, "\"{}\" is no record: it has no field {}", printable(record.key),
                      kGroupField);
  return std::string(group->bytes);
}

// Records in the order of their groups, as a reducer reads them.
class GroupFeed {
 public:
  explicit GroupFeed(tar::ByteSink& sink) : writer_(sink) {}

  Status add(const std::string& group, const tar::Sample& record) {
    if (!groups_ || group != group_) {
      ++groups_;
      group_ = group;
      in_group_ = 0;
    }
    const std::string key = fmt::format("{}/{:09}", group, in_group_++);
    for (const tar::Field& field : record.fields) {
      if (field.field == kGroupField) continue;
      const std::string name = fmt::format("{}.{}", key, field.field);
      MR_TRY(writer_.add({.name = name, .size = field.bytes.size()}, field.bytes));
    }
    ++records_;
    return {};
  }
  Status finish() { return writer_.finish(); }
  uint64_t groups() const { return groups_; }
  uint64_t records() const { return records_; }

 private:
  tar::Writer writer_;
  std::string group_;
  uint64_t in_group_ = 0;
  uint64_t groups_ = 0;
  uint64_t records_ = 0;
};

// The last group of a shard; nothing where it is empty.
Result<std::optional<std::string>> last_group(const std::string& shard, const InputOptions& options) {
  InputStream stream({shard}, options);
  std::optional<std::string> last;
  while (const tar::Sample* record = MR_TRY(stream.next())) last = MR_TRY(group_of(*record));
  return last;
}

// The groups that begin in one of the sorted shards.
Status feed_groups(const ReduceGroups& task, const MapReducePlace& place, GroupFeed& feed) {
  std::optional<std::string> before;
  for (size_t i = task.at; i-- > 0 && !before;) before = MR_TRY(last_group(task.sorted[i], place.input));
  std::optional<std::string> current;
  for (size_t i = task.at; i < task.sorted.size(); ++i) {
    InputStream stream({task.sorted[i]}, place.input);
    while (const tar::Sample* record = MR_TRY(stream.next())) {
      const std::string group = MR_TRY(group_of(*record));
      if (before && group == *before) continue;
      // Behind its own shard only the last group goes on.
      if (i > task.at && (!current || group != *current)) return {};
      current = group;
      MR_TRY(feed.add(group, *record));
    }
    if (!current) return {};
  }
  return {};
}

// The samples that a reducer wrote, with headers of our own.
Result<uint64_t> take_samples(tar::ByteSource& source, ShardFile& file, const MapReducePlace& place) {
  tar::StreamWindow window(source, place.memory);
  tar::SampleReader samples(window, "the reducer's output", place.input.read);
  uint64_t count = 0;
  std::vector<NewField> fields;
  while (const tar::Sample* sample = MR_TRY(samples.next())) {
    fields.clear();
    for (const tar::Field& field : sample->fields) fields.push_back({field.field, field.bytes});
    MR_TRY(file.add(sample->key, fields));
    ++count;
  }
  return count;
}

Status feed_shard(const MapRecords& task, const MapReducePlace& place, tar::ByteSink& sink, uint64_t& bytes) {
  const auto input = MR_TRY(ShardInput::open(task.input, place.input));
  return copy_bytes(input->plain(), [&](std::string_view some) {
    bytes += some.size();
    return sink.write(some);
  });
}

Status run_mapper(const MapRecords& task, const MapReducePlace& place, RecordWriter& records,
                  uint64_t& bytes) {
  Filter filter;
  filter.words = task.mapper;
  filter.directory = place.directory;
  filter.feed = [&](tar::ByteSink& sink) { return feed_shard(task, place, sink, bytes); };
  filter.take = [&](tar::ByteSource& source) { return records.take(source, "the mapper's output"); };
  return run_filter(filter).within("the mapper");
}

// Records of one mapper, by group, through the combiner.
Status run_combiner(const MapRecords& task, const MapReducePlace& place, const std::string& unsorted,
                    RecordWriter& records) {
  SortOptions sort;
  sort.by = SortBy::kText;
  sort.field = kGroupField;
  sort.memory = place.memory;
  sort.temporary_directory = place.directory;
  sort.input = place.input;
  Filter filter;
  filter.words = task.combiner;
  filter.directory = place.directory;
  filter.feed = [&](tar::ByteSink& sink) -> Status {
    GroupFeed feed(sink);
    MR_TRY(sort_samples({unsorted}, sort, [&](const tar::Sample& record) -> Status {
      return feed.add(MR_TRY(group_of(record)), record);
    }));
    return feed.finish();
  };
  filter.take = [&](tar::ByteSource& source) { return records.take(source, "the combiner's output"); };
  return run_filter(filter).within("the combiner");
}

}  // namespace

Status add_counters(const std::string& path, Counters& counters) {
  if (!file_exists(path)) return {};
  const std::string text = MR_TRY(read_file(path, kMostCounterBytes));
  std::string_view left = text;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    if (line.empty()) continue;
    const size_t space = line.rfind(' ');
    const std::string name(line.substr(0, space));
    const auto number =
        space == std::string_view::npos ? std::nullopt : parse_number<int64_t>(line.substr(space + 1));
    if (!number || name.empty() || name.size() > 100 || !is_utf8(name))
      return make_error(Code::kCorrupt, "\"{}\" is no counter", printable(line, 100))
          .with_hint("a line of $MILLRACE_COUNTERS is a name, a space and a whole number");
    if (!counters.contains(name) && counters.size() >= kMostCounters)
      return make_error(Code::kTooLarge, "there are more than {} counters", kMostCounters);
    counters[name] += *number;
  }
  return {};
}

Result<MapReduceReport> map_records(const MapRecords& task, const MapReducePlace& place) {
  MapReduceReport report;
  if (task.combiner.empty()) {
    const auto file = MR_TRY(ShardFile::create(task.output, place.output));
    RecordWriter records(*file, task.number, place);
    MR_TRY(run_mapper(task, place, records, report.bytes_in));
    report.bytes_out = MR_TRY(file->finish()).stored_bytes;
    report.records = records.records();
    return report;
  }
  const std::string unsorted = place.directory + "/records.tar";
  OutputOptions plain;
  plain.index = IndexPolicy::kNone;
  {
    const auto file = MR_TRY(ShardFile::create(unsorted, plain));
    RecordWriter records(*file, task.number, place);
    MR_TRY(run_mapper(task, place, records, report.bytes_in));
    MR_TRY(file->finish());
  }
  const auto file = MR_TRY(ShardFile::create(task.output, place.output));
  RecordWriter records(*file, task.number, place);
  Status combined = run_combiner(task, place, unsorted, records);
  MR_TRY(remove_file_if_present(unsorted));
  MR_TRY(std::move(combined));
  report.bytes_out = MR_TRY(file->finish()).stored_bytes;
  report.records = records.records();
  return report;
}

Result<MapReduceReport> reduce_groups(const ReduceGroups& task, const MapReducePlace& place) {
  MapReduceReport report;
  const auto file = MR_TRY(ShardFile::create(task.output, place.output));
  Filter filter;
  filter.words = task.reducer;
  filter.directory = place.directory;
  filter.feed = [&](tar::ByteSink& sink) -> Status {
    GroupFeed feed(sink);
    MR_TRY(feed_groups(task, place, feed));
    report.groups = feed.groups();
    report.records = feed.records();
    return feed.finish();
  };
  filter.take = [&](tar::ByteSource& source) -> Status {
    report.samples = MR_TRY(take_samples(source, *file, place));
    return {};
  };
  MR_TRY(run_filter(filter).within("the reducer"));
  const ShardSummary written = MR_TRY(file->finish());
  report.bytes_out = written.stored_bytes;
  return report;
}

}  // namespace millrace::shard
