// ClusterReader: the bytes of one object, from the slices that hold them.
//
// Bytes of a slice on this node's drives go out as from any local object. Others are asked for from their
// holder, some ahead of the reader. If a holder does not answer, another copy is read, or the bytes are
// computed from k other slices. A reader is pinned to its write: slices of two writes never mix.
#pragma once

#include <memory>

#include "cluster/cluster.h"
#include "store/objects.h"

namespace millrace::cluster {

std::unique_ptr<store::Reader> open_cluster_reader(Cluster& cluster, store::ObjectPointer object);

}  // namespace millrace::cluster
