// The records of a tensor bundle's index as bytes: TensorFlow's BundleHeaderProto and BundleEntryProto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "crosstalk/models/interop/mesh/tensor_bundle.h"

namespace crosstalk {

// The number of shards. Error(kData) "SOURCE: …" for big-endian data, and for what needs a newer reader.
int64_t ReadBundleHeader(std::string_view bytes, const std::string& source);
std::string BundleHeaderBytes(int64_t shards);

// Error(kData) "SOURCE: tensor "NAME": …" where the numbers do not fit each other, and for a partitioned variable.
BundleEntry ReadBundleEntry(const std::string& name, std::string_view bytes, int64_t shards, const std::string& source);
std::string BundleEntryBytes(const BundleEntry& entry);

}  // namespace crosstalk
