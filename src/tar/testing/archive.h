// Raw archives for tests: headers of any kind, also wrong ones, made without the code under test; sources and
// sinks in memory; and the three ways of reading an archive brought to one form that can be compared.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tar/feed.h"
#include "tar/reader.h"
#include "tar/window.h"
#include "tar/writer.h"

namespace millrace::tar::testing {

enum class Flavour { kUstar, kGnu, kV7 };

struct RawMember {
  std::string name = {};
  std::string data = {};
  char type = kTypeFile;
  Flavour flavour = Flavour::kUstar;
  std::string link = {};
  std::string prefix = {};
  std::string size_field = {};  // in place of the octal size of `data`
  std::string mtime_field = {};
};

inline std::string octal(uint64_t value, size_t digits) {
  return fmt::format("{:0{}o}", value, digits);
}

// The checksum byte by byte, as POSIX says it.
inline void seal(Header& header) {
  std::memset(header.checksum, ' ', sizeof header.checksum);
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) sum += reinterpret_cast<const unsigned char*>(&header)[i];
  std::memcpy(header.checksum, (octal(sum, 6) + '\0' + ' ').data(), 8);
}

template <size_t width>
void put_field(char (&field)[width], std::string_view text) {
  std::memcpy(field, text.data(), std::min(width, text.size()));
}

inline Header raw_header(const RawMember& member) {
  Header header = {};
  put_field(header.name, member.name);
  put_field(header.mode, "0000644");
  put_field(header.uid, "0000000");
  put_field(header.gid, "0000000");
  put_field(header.size, member.size_field.empty() ? octal(member.data.size(), 11) : member.size_field);
  put_field(header.mtime, member.mtime_field.empty() ? "00000000000" : member.mtime_field);
  header.type = member.type;
  put_field(header.link, member.link);
  if (member.flavour == Flavour::kUstar) std::memcpy(header.magic, "ustar\00000", 8);
  if (member.flavour == Flavour::kGnu) std::memcpy(header.magic, "ustar  \0", 8);
  put_field(header.prefix, member.prefix);
  seal(header);
  return header;
}

inline std::string as_text(const Header& header) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof header);
}

inline std::string with_padding(std::string blocks) {
  blocks.resize(padded(blocks.size()));
  return blocks;
}

inline std::string raw_member(const RawMember& member) {
  return with_padding(as_text(raw_header(member)) + member.data);
}

inline std::string raw_file(std::string name, std::string data) {
  return raw_member({.name = std::move(name), .data = std::move(data)});
}

// "27 path=some/name\n", its length found by trying.
inline std::string pax_record(const std::string& key, const std::string& value) {
  const std::string body = " " + key + "=" + value + "\n";
  for (size_t length = body.size();; ++length) {
    if (std::to_string(length).size() + body.size() == length) return std::to_string(length) + body;
  }
}

inline std::string pax_header(std::string records, char type = kTypePax) {
  return raw_member({.name = "././@PaxHeader", .data = std::move(records), .type = type});
}

inline std::string gnu_long(std::string text, char type = kTypeGnuLongName) {
  return raw_member(
      {.name = "././@LongLink", .data = std::move(text) + '\0', .type = type, .flavour = Flavour::kGnu});
}

inline std::string end_blocks() {
  return std::string(2 * kBlock, '\0');
}

// Gives at most `step` bytes at a time.
class StringSource final : public ByteSource {
 public:
  explicit StringSource(std::string_view bytes, size_t step = SIZE_MAX) : bytes_(bytes), step_(step) {}

  Result<size_t> read_some(std::span<std::byte> into) override {
    const size_t size = std::min({into.size(), bytes_.size(), step_});
    std::memcpy(into.data(), bytes_.data(), size);
    bytes_.remove_prefix(size);
    return size;
  }
  Result<uint64_t> skip(uint64_t bytes) override {
    const size_t size = std::min<uint64_t>(bytes, bytes_.size());
    bytes_.remove_prefix(size);
    skipped_ += size;
    return uint64_t{size};
  }
  uint64_t skipped() const { return skipped_; }

 private:
  std::string_view bytes_;
  const size_t step_;
  uint64_t skipped_ = 0;
};

class StringSink final : public ByteSink {
 public:
  using ByteSink::write;
  Status write(std::string_view more) override {
    bytes += more;
    return {};
  }
  Status finish() override {
    finished = true;
    return {};
  }

  std::string bytes;
  bool finished = false;
};

// A member as a test compares it.
struct ReadMember {
  std::string name;
  std::string link;
  std::string data;
  uint64_t size = 0;
  uint64_t header_offset = 0;
  uint64_t data_offset = 0;
  bool is_file = false;
  bool is_directory = false;
  bool self_contained = true;
  std::vector<std::pair<std::string, std::string>> pax;

  bool operator==(const ReadMember&) const = default;
};

// Members whose data came whole, and how reading ended.
struct Outcome {
  std::vector<ReadMember> members;
  std::optional<Error> error;
};

inline ReadMember describe(const Member& member) {
  ReadMember read = {std::string(member.name),
                     std::string(member.link),
                     {},
                     member.size,
                     member.header_offset,
                     member.data_offset,
                     member.is_file,
                     member.is_directory,
                     member.self_contained,
                     {}};
  if (member.pax != nullptr) {
    for (const PaxRecord& record : *member.pax) read.pax.emplace_back(record.key, record.value);
  }
  return read;
}

inline Outcome read_window(Window& window, Archives archives) {
  MemberReader reader(window, "test.tar", archives);
  Outcome outcome;
  while (true) {
    auto member = reader.next();
    if (!member) {
      outcome.error = member.take_error();
      return outcome;
    }
    if (*member == nullptr) return outcome;
    ReadMember read = describe(**member);
    while (true) {
      auto piece = reader.next_piece();
      if (!piece) {
        outcome.error = piece.take_error();
        return outcome;
      }
      if (piece->empty()) break;
      read.data += *piece;
    }
    outcome.members.push_back(std::move(read));
  }
}

inline Outcome read_mapped(std::string_view archive, Archives archives = Archives::kOne) {
  MappedWindow window(archive);
  return read_window(window, archives);
}

inline Outcome read_stream(std::string_view archive, size_t step, Archives archives = Archives::kOne) {
  StringSource source(archive, step);
  StreamWindow window(source);
  return read_window(window, archives);
}

// `next_chunk` gives the size of the next chunk, given how much is left.
template <typename NextChunk>
Outcome read_feed_by(std::string_view archive, Archives archives, NextChunk next_chunk) {
  FeedReader reader("test.tar", archives);
  Outcome outcome;
  std::optional<ReadMember> under_way;
  const auto complete = [&] {
    if (under_way) outcome.members.push_back(std::move(*under_way));
    under_way.reset();
  };
  std::string chunk;
  while (true) {
    auto event = reader.next();
    if (!event) {
      if (under_way && under_way->data.size() == under_way->size) complete();
      outcome.error = event.take_error();
      return outcome;
    }
    switch (event->kind) {
      case FeedReader::Kind::kMember:
        complete();
        under_way = describe(*event->member);
        break;
      case FeedReader::Kind::kPiece:
        under_way->data += event->piece;
        break;
      case FeedReader::Kind::kEnd:
        complete();
        return outcome;
      case FeedReader::Kind::kNeedBytes:
        if (archive.empty()) {
          reader.finish();
          break;
        }
        // A copy, so that a view kept too long is found by the sanitizer.
        chunk = std::string(archive.substr(0, next_chunk(archive.size())));
        archive.remove_prefix(chunk.size());
        reader.feed(chunk);
        break;
    }
  }
}

inline Outcome read_feed(std::string_view archive, size_t chunk_size, Archives archives = Archives::kOne) {
  return read_feed_by(archive, archives, [&](size_t) { return chunk_size; });
}

}  // namespace millrace::tar::testing
