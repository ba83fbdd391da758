// A checkpoint of Mesh TensorFlow: model.ckpt-N.index and its files of data, operative_config.gin beside them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/interop/hugging_face.h"
#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/interop/mesh/bundle.h"

namespace crosstalk {

inline constexpr char kMeshGinName[] = "operative_config.gin";
inline constexpr char kMeshCheckpointName[] = "checkpoint";
inline constexpr char kMeshStepName[] = "global_step";

// True for a folder that has a file `checkpoint` or one or more .index files and is no checkpoint of ours; for a prefix
// of which there is PREFIX.index; and for that file.
bool IsMeshCheckpoint(const std::string& path);

class MeshFolder : public PublishedFolder {
 public:
  // Reads the index, and operative_config.gin where it is there. Error(kData) that names the file and the tensor for
  // what is damaged, missing, or of a type that is not read. What no model has (the optimizer's slots, the step,
  // strings) is passed over, with a remark.
  MeshFolder(const std::string& path, const MeshOptions& options);

  PublishedFormat format() const override { return PublishedFormat::kMesh; }
  const PublishedForm& form() const override;
  Tensor ReadTensor(const std::string& name) const override;

  const TensorBundle& bundle() const { return *bundle_; }

 private:
  void ReadConfiguration(const MeshOptions& options);
  void ChooseTensors();

  std::unique_ptr<TensorBundle> bundle_;
};

// A T5 as a checkpoint of Mesh TensorFlow.

// ExportModel in PublishedFormat::kMesh: `checkpoint`, model.ckpt-N.index with one file of data, operative_config.gin,
// and sentencepiece.model where the tokenizer is such a model. All of it is read back before the folder appears.
ExportResult ExportMesh(const Trained& any, const std::string& out, const ExportOptions& options);

}  // namespace crosstalk
