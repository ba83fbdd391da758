// A folder as Hugging Face's libraries write it: config.json, and model.safetensors in one file or in several with an
// index. Hostile until checked: nothing is allocated that is not in the files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "crosstalk/models/interop/published_folder.h"
#include "crosstalk/runtime/safetensors.h"

namespace crosstalk {

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
  std::vector<NamedTensor> ReadTensors() const override;

 private:
  void ReadFiles(const std::vector<std::string>& names, const std::map<std::string, std::string>* index);

  std::vector<std::string> files_;
};

}  // namespace crosstalk
