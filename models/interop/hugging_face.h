// Folders of published models, in whatever format, and those of Hugging Face's libraries.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/interop/names.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/shape.h"

namespace crosstalk {

// A folder with a published model, in whatever format: its configuration, its tensors by name, the files beside them.

struct PublishedTensorEntry {
  std::string dtype;  // "F32", "F16", "BF16", "I64", "I32"
  Shape shape;
};

// The settings of a model's search for what it writes, beside its configuration.
inline constexpr char kGenerationConfigName[] = "generation_config.json";

class PublishedFolder {
 public:
  virtual ~PublishedFolder() = default;

  virtual PublishedFormat format() const = 0;
  // Error(kData) where its configuration names a model that is not read here.
  virtual const PublishedForm& form() const = 0;
  // One of tensors(), which is read when it is asked for: float32 of weights. Error(kData) also where its file has
  // changed since.
  virtual Tensor ReadTensor(const std::string& name) const = 0;
  // Whether two of them have one shape and the same values, to the bit.
  virtual bool AreSame(const std::string& one, const std::string& other) const;

  const std::string& path() const { return path_; }
  std::string FilePath(const std::string& name) const { return path_ + "/" + name; }
  // The file that errors name where they speak of the configuration, and it.
  const std::string& config_name() const { return config_name_; }
  std::string ConfigPath() const { return FilePath(config_name_); }
  const std::string& config_text() const { return config_text_; }
  const Json& config() const { return config_; }
  // By name.
  const std::map<std::string, PublishedTensorEntry>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Remarks on skipped parts: sentences for the user.
  const std::vector<std::string>& remarks() const { return remarks_; }
  // The contents of a file of the folder; nullopt if it has none of that name. Error(kData) for one that is too
  // large.
  std::optional<std::string> Contents(const std::string& name) const;

 protected:
  PublishedFolder() = default;
  // Without the slashes at its end.
  explicit PublishedFolder(std::string path);

  std::string path_;
  std::string config_name_;
  std::string config_text_;
  Json config_;
  std::map<std::string, PublishedTensorEntry> tensors_;
  std::map<std::string, std::string> metadata_;
  std::vector<std::string> remarks_;
};

// Settings that a checkpoint of Mesh TensorFlow may leave open, as its configuration would say it.
struct MeshOptions {
  std::optional<FeedForwardKind> feed_forward = {};
  std::optional<std::string> dynamic = {};  // "Xl,Mw": the dynamic projections that there are
  std::optional<int64_t> vocabulary = {};   // ids, where the embedding has more rows
  bool empty() const { return !feed_forward && !dynamic && !vocabulary; }
};

// True where a published model may be: a folder with a config.json that is no checkpoint of ours, or a checkpoint of
// Mesh TensorFlow as MeshFolder takes it.
bool IsPublished(const std::string& path);
// Whichever of the two it is. Error(kUsage) of the field at fault for options that a Hugging Face folder has no use
// for.
std::unique_ptr<PublishedFolder> OpenPublishedFolder(const std::string& path, const MeshOptions& mesh = {});

// A name that stays in its folder.
bool IsPlainName(std::string_view name);

// A folder as Hugging Face's libraries write it: config.json, and model.safetensors in one file or in several with an
// index. Hostile until checked: nothing is allocated that is not in the files.

inline constexpr char kHfConfigName[] = "config.json";
inline constexpr char kHfWeightsName[] = "model.safetensors";
inline constexpr char kHfIndexName[] = "model.safetensors.index.json";

// True for a folder with a config.json that is no checkpoint of ours.
bool IsHuggingFaceFolder(const std::string& path);

class HuggingFaceFolder : public PublishedFolder {
 public:
  // Reads config.json and the headers. Error(kData) that names the file: what is missing or damaged; weights in another
  // format, with how to convert them; an index that leaves the folder, or that disagrees with its files. F32, F16 and
  // BF16 are weights, I64 and I32 buffers; any other type is refused.
  explicit HuggingFaceFolder(const std::string& path);

  PublishedFormat format() const override { return PublishedFormat::kHuggingFace; }
  // By model_type.
  const PublishedForm& form() const override;
  Tensor ReadTensor(const std::string& name) const override;
  bool AreSame(const std::string& one, const std::string& other) const override;

 private:
  void ReadFiles(const std::vector<std::string>& names, const std::map<std::string, std::string>* index);

  std::vector<std::unique_ptr<const TensorFileHeader>> headers_;
  std::map<std::string, TensorInFile> places_;  // by the tensor's name
};

}  // namespace crosstalk
