// The checksums of objects, as they are kept with the record and shown to clients. Pure.
//
// An object that came whole has checksums of its content (FULL_OBJECT). One that came in parts has a checksum
// put together from its parts': of the whole content where it is a CRC that can be joined, else a checksum of
// checksums in the form "…-N" (COMPOSITE).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/s3_xml.h"
#include "net/digest.h"
#include "store/objects.h"

namespace millrace::gateway {

inline constexpr std::string_view kChecksumAlgorithm = "x-amz-checksum-algorithm";
inline constexpr std::string_view kChecksumType = "x-amz-checksum-type";
// Among a record's headers: the upload that made the object, so that completing it again is answered alike.
// It is shown to nobody.
inline constexpr std::string_view kUploadHeader = "x-millrace-upload";

const std::string* find_header(const std::vector<store::NameValue>& headers, std::string_view name);

// The headers of an answer that shows an object's checksums, with their type; empty: it has none.
std::vector<store::NameValue> object_checksums(const store::Record& record);
// CRC32C of the whole content, in base64, as the node computed it.
std::string whole_crc(const store::Record& record);
// The same as elements of an answer.
void add_checksums(XmlWriter& xml, const std::vector<store::NameValue>& headers);

// What the client that began an upload wants its object to have.
struct ChecksumForm {
  net::DigestKind kind = net::DigestKind::kCrc32c;
  bool whole = false;  // FULL_OBJECT
};
// An error where algorithm and type do not fit; nothing: no algorithm was chosen.
Result<std::optional<ChecksumForm>> find_form(const std::vector<store::NameValue>& upload_headers);

// The checksum of an object made of these parts; nothing where one of them came without.
std::optional<std::string> join_checksums(ChecksumForm form, const std::vector<store::PartStatus>& parts);
// Whether the client's claim about the whole object holds; clients leave out the "-N" of a checksum of
// checksums.
Status check_claim(const store::NameValue& claim, const std::vector<store::PartStatus>& parts);

}  // namespace millrace::gateway
