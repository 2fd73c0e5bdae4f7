// Compressed archives: what they look like, and sinks and sources that pass through them.
//
// Input is recognised by content, never by name. gzip goes through ISA-L, which is 2.5 times and more as
// fast as zlib. Sinks and sources belong to one thread each and use what they are given, not own it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tar/window.h"
#include "tar/writer.h"

namespace millrace::tar {

enum class Compression { kNone, kGzip, kZstd, kBzip2, kXz };

inline constexpr size_t kMagicBytes = 6;  // enough to recognise any of them

Compression recognise_compression(std::string_view start);
// By file name, for output: .tgz .tar.gz .tar.zst .tzst; anything else is plain.
Compression compression_for_name(std::string_view name);
std::string_view compression_name(Compression compression);
Result<Compression> parse_output_compression(std::string_view text);

// Gives the plain bytes. `name` is for errors. The compressed stream's own checksums are verified, and one
// that ends early is an error. Several members or frames behind each other are one stream.
Result<std::unique_ptr<ByteSource>> make_decompressor(Compression compression, ByteSource& compressed,
                                                      const std::string& name);

// Takes the plain bytes. Only what we write: none, gzip, zstd.
Result<std::unique_ptr<ByteSink>> make_compressor(Compression compression, ByteSink& compressed);

}  // namespace millrace::tar
