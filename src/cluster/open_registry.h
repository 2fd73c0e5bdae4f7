// open_registry: the registry that a setting names.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cluster/etcd_registry.h"
#include "cluster/registry.h"

namespace millrace::cluster {

// A directory of this machine, or etcd://… or etcds://… (cluster/etcd_caller.h).
Result<std::unique_ptr<Registry>> open_registry(const std::string& where, const EtcdOptions& options);
// The same text without user and password, to be shown.
std::string shown_registry(const std::string& where);

}  // namespace millrace::cluster
