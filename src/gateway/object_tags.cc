// Tags of objects, as S3 shows and sets them.
#include "gateway/object_tags.h"

#include "gateway/get_object.h"
#include "gateway/s3_xml.h"
#include "gateway/upload_body.h"

namespace millrace::gateway {

namespace {

constexpr size_t kMaxXmlBody = 2 << 20;

}  // namespace

net::Task<Status> get_tags(Call& call) {
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object) co_return co_await call.refuse(object.error());
  XmlWriter xml("Tagging");
  xml.open("TagSet");
  for (const auto& [name, value] : (*object)->record().tags) {
    xml.open("Tag");
    xml.add("Key", name);
    xml.add("Value", value);
    xml.close();
  }
  co_return co_await call.send_xml(200, xml.finish());
}

namespace {
net::Task<Status> change_tags(Call& call, std::vector<store::NameValue> tags, int status) {
  std::function<void(store::Done<store::ObjectPointer>)> change =
      [&call, tags](store::Done<store::ObjectPointer> done) {
        call.objects().set_tags(call.bucket, call.key, tags, std::move(done));
      };
  auto changed = co_await call.ask<store::ObjectPointer>(std::move(change));
  if (!changed) co_return co_await call.refuse(changed.error());
  co_return co_await call.send_empty(status);
}
}  // namespace

net::Task<Status> put_tags(Call& call) {
  auto text = co_await read_document(call, kMaxXmlBody);
  if (!text) co_return co_await call.refuse(text.error());
  auto tags = parse_tagging(*text);
  if (!tags) co_return co_await call.refuse(tags.error());
  co_return co_await change_tags(call, tags.take(), 200);
}

net::Task<Status> delete_tags(Call& call) {
  std::vector<store::NameValue> none;
  co_return co_await change_tags(call, std::move(none), 204);
}

}  // namespace millrace::gateway
