// Chooses between the two registries by the form of the address.
#include "cluster/open_registry.h"

#include "base/text.h"
#include "cluster/files_registry.h"

namespace millrace::cluster {

Result<std::unique_ptr<Registry>> open_registry(const std::string& where, const EtcdOptions& options) {
  if (is_etcd_address(where)) {
    std::unique_ptr<Registry> registry = MR_TRY(EtcdRegistry::open(where, options));
    return registry;
  }
  if (where.find("://") != std::string::npos)
    return make_error(Code::kInvalid, "{} is no registry", printable(where.substr(0, where.find("://"))))
        .with_hint("it is a directory, or etcd://host:2379, or etcds://host:2379");
  std::unique_ptr<Registry> registry = MR_TRY(FilesRegistry::open(where));
  return registry;
}

std::string shown_registry(const std::string& where) {
  if (!is_etcd_address(where)) return where;
  const size_t begin = where.find("://") + 3;
  const size_t at = where.rfind('@', where.find('/', begin));
  return at == std::string::npos || at < begin ? where : where.substr(0, begin) + where.substr(at + 1);
}

}  // namespace millrace::cluster
