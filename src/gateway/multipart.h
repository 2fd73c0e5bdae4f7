// Multipart uploads: create, parts, copies as parts, lists, complete, abort.
#pragma once

#include "gateway/call.h"

namespace millrace::gateway {

// The upload that a call names, and what is known of it.
store::UploadName upload_name(const Call& call);
net::Task<Result<store::UploadStatus>> get_upload(Call& call);

net::Task<Status> create_upload(Call& call);    // POST ?uploads
net::Task<Status> put_part(Call& call);         // PUT ?partNumber&uploadId
net::Task<Status> copy_part(Call& call);        // the same with x-amz-copy-source
net::Task<Status> list_parts(Call& call);       // GET ?uploadId
net::Task<Status> list_uploads(Call& call);     // GET bucket?uploads
net::Task<Status> complete_upload(Call& call);  // POST ?uploadId
net::Task<Status> abort_upload(Call& call);     // DELETE ?uploadId

}  // namespace millrace::gateway
