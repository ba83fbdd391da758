// The checkpoints of TensorFlow that tests/models/interop/mesh/bundles holds, and others made of entries as a test
// wants them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/interop/mesh/bundle.h"
#include "crosstalk/models/interop/mesh/folder.h"
#include "crosstalk/models/interop/mesh/table.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/runtime/atomic_file.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {

inline std::string BundleFixture(const std::string& name) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  return std::string(source == nullptr ? "." : source) + "/tests/models/interop/mesh/bundles/" + name;
}

// PREFIX.index of such entries, in this order, as damaged as they are.
inline void WriteIndex(const std::string& prefix, int64_t shards, const std::vector<BundleEntry>& entries) {
  std::vector<TableEntry> table = {{"", BundleHeaderBytes(shards)}};
  for (const BundleEntry& entry : entries) table.push_back({entry.name, BundleEntryBytes(entry)});
  PutFile(BundleIndexPath(prefix), WriteTable(table));
}

// Models of every attention that the format can say, their way out and in.

inline Trained OpenModel(const std::string& path, DType dtype = DType::kFloat32) {
  return Open(path, {.tokenizer = TokenizerUse::kNone, .dtype = dtype});
}
inline ExportResult ExportMesh(const Trained& any, const std::string& path) {
  return ExportModel(any, path, {.format = PublishedFormat::kMesh});
}

inline std::map<std::string, Tensor> TensorsIn(const MeshFolder& folder) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, entry] : folder.tensors()) tensors[name] = folder.ReadTensor(name);
  return tensors;
}

inline void ExpectSameTensors(const MeshFolder& a, const MeshFolder& b) {
  const std::map<std::string, Tensor> before = TensorsIn(a), after = TensorsIn(b);
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    ASSERT_EQ(after.count(name), 1u) << name;
    EXPECT_EQ(a.tensors().at(name).dtype, b.tensors().at(name).dtype) << name;
    EXPECT_EQ(tensor.shape(), after.at(name).shape()) << name;
    EXPECT_EQ(tensor.ToVector<float>(), after.at(name).ToVector<float>()) << name;
  }
}

inline ModelConfig SmallConfig() {
  ModelConfig config = BaseT5();
  config.vocabulary = 37;
  config.d_model = 12;
  config.d_ff = 20;
  config.layers = 2;
  config.decoder_layers = 3;
  config.relative_buckets = 8;
  config.SetAttention(AttentionConfig::MultiHead(12, 3, 5));
  return config;
}

inline AttentionConfig Talking(const HeadMixing& mixing) {
  AttentionConfig layer = AttentionConfig::TalkingHeads(12, mixing.P_l ? 4 : 3, 3, mixing.P_w ? 2 : 3, 5, 7);
  layer.mixing = mixing;
  return layer;
}

inline Trained Made(const ModelConfig& config) {
  Trained any;
  any.model = MakeModel(config, 7);
  any.checkpoint = "a test's model";
  any.step = 12;
  return any;
}

}  // namespace crosstalk
