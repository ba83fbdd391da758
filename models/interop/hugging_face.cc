#include "crosstalk/models/interop/hugging_face.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "crosstalk/models/interop/mesh/folder.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr uint64_t kMaxOtherBytes = 256 << 20;

std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

PublishedFolder::PublishedFolder(std::string path) : path_(WithoutSlashes(std::move(path))) {}

std::optional<std::string> PublishedFolder::Contents(const std::string& name) const {
  if (KindOf(FilePath(name)) == PathKind::kNothing) return std::nullopt;
  return ReadFile(FilePath(name), kMaxOtherBytes);
}

bool PublishedFolder::AreSame(const std::string& one, const std::string& other) const {
  if (tensors_.at(one).shape != tensors_.at(other).shape) return false;
  const Tensor a = ReadTensor(one), b = ReadTensor(other);
  return a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.num_elements()) * SizeOf(a.dtype())) == 0;
}

bool IsPublished(const std::string& path) { return IsHuggingFaceFolder(path) || IsMeshCheckpoint(path); }

std::unique_ptr<PublishedFolder> OpenPublishedFolder(const std::string& path, const MeshOptions& mesh) {
  if (!IsHuggingFaceFolder(path) && IsMeshCheckpoint(path)) return std::make_unique<MeshFolder>(path, mesh);
  const auto check = [&](const char* field, bool given) {
    CROSSTALK_CHECK_FIELD(!given, field, "is of checkpoints of Mesh TensorFlow, and ", path, " is none");
  };
  check("feed_forward", mesh.feed_forward.has_value());
  check("dynamic", mesh.dynamic.has_value());
  check("vocabulary", mesh.vocabulary.has_value());
  return std::make_unique<HuggingFaceFolder>(path);
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

namespace {

constexpr uint64_t kMaxConfigBytes = 16 << 20;
constexpr uint64_t kMaxIndexBytes = 64 << 20;

// The framework that wrote a file of weights which is not read here; null for any other file.
const char* OtherFormat(const std::string& name) {
  if (name.ends_with(".bin") && name.starts_with("pytorch_model")) return "PyTorch's pickle format";
  if (name.ends_with(".bin.index.json")) return "PyTorch's pickle format";
  if (name.ends_with(".pt") || name.ends_with(".pth")) return "PyTorch's pickle format";
  if (name.ends_with(".h5") || name.ends_with(".h5.index.json")) return "TensorFlow's format";
  if (name.find(".ckpt") != std::string::npos || name == "checkpoint") return "TensorFlow's format";
  if (name.ends_with(".msgpack")) return "Flax's format";
  return nullptr;
}

[[noreturn]] void FailWithoutWeights(const std::string& path) {
  for (const std::string& name : ListDirectory(path)) {
    const char* const format = OtherFormat(name);
    if (format == nullptr) continue;
    const bool tensorflow = std::string_view(format) == "TensorFlow's format";
    const bool flax = std::string_view(format) == "Flax's format";
    Fail(ErrorKind::kData, path, ": its weights are in ", format, " (", Excerpt(name), "), which is not read here; ",
         "convert them once in Python, with the transformers library: AutoModelForPreTraining.from_pretrained(FOLDER",
         tensorflow ? ", from_tf=True"
         : flax     ? ", from_flax=True"
                    : "",
         ").save_pretrained(NEW_FOLDER, safe_serialization=True)");
  }
  Fail(ErrorKind::kData, path, ": has no ", kHfWeightsName, " and no ", kHfIndexName);
}

// The file of each tensor.
std::map<std::string, std::string> ReadIndex(const std::string& path) {
  const Json json = ParseJson(ReadFile(path, kMaxIndexBytes), path);
  const JsonReader reader(json, path);
  if (!reader.Value("weight_map").is_object()) reader.FailAt("weight_map", "must be an object");
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : reader.Value("weight_map").AsObject()) {
    if (!file.is_string() || !IsPlainName(file.AsString()) || !file.AsString().ends_with(".safetensors")) {
      Fail(ErrorKind::kData, path, ": weight_map: tensor ", Quoted(name), ": ", Excerpt(file.Dump()),
           " is not the name of a .safetensors file of this folder");
    }
    files.emplace(name, file.AsString());
  }
  if (files.empty()) reader.FailAt("weight_map", "is empty");
  return files;
}

}  // namespace

bool IsHuggingFaceFolder(const std::string& path) {
  return KindOf(path) == PathKind::kDirectory && KindOf(path + "/" + kHfConfigName) == PathKind::kFile &&
         !HasManifest(path);
}

HuggingFaceFolder::HuggingFaceFolder(const std::string& path) : PublishedFolder(path) {
  config_name_ = kHfConfigName;
  const PathKind kind = KindOf(path_);
  if (kind != PathKind::kDirectory) {
    Fail(ErrorKind::kData, path_, kind == PathKind::kNothing ? ": there is nothing there" : ": is not a folder",
         "; name the folder that holds ", kHfConfigName, " and ", kHfWeightsName);
  }
  if (KindOf(FilePath(kHfConfigName)) == PathKind::kNothing) {
    Fail(ErrorKind::kData, path_, ": has no ", kHfConfigName, ", so it is not the folder of a published model");
  }
  config_text_ = ReadFile(FilePath(kHfConfigName), kMaxConfigBytes);
  config_ = ParseJson(config_text_, FilePath(kHfConfigName));
  if (!config_.is_object()) Fail(ErrorKind::kData, FilePath(kHfConfigName), ": is not an object");
  if (KindOf(FilePath(kHfWeightsName)) != PathKind::kNothing) {
    ReadFiles({kHfWeightsName}, nullptr);
  } else if (KindOf(FilePath(kHfIndexName)) != PathKind::kNothing) {
    const std::map<std::string, std::string> index = ReadIndex(FilePath(kHfIndexName));
    std::set<std::string> names;
    for (const auto& [tensor, file] : index) names.insert(file);
    ReadFiles({names.begin(), names.end()}, &index);
  } else {
    FailWithoutWeights(path_);
  }
}

void HuggingFaceFolder::ReadFiles(const std::vector<std::string>& names,
                                  const std::map<std::string, std::string>* index) {
  for (const std::string& name : names) {
    headers_.push_back(std::make_unique<const TensorFileHeader>(ReadSafetensorsHeader(FilePath(name))));
    const TensorFileHeader& header = *headers_.back();
    if (metadata_.empty()) metadata_ = header.metadata;
    for (const TensorFileEntry& entry : header.entries) {
      if (index != nullptr) {
        const auto place = index->find(entry.name);
        if (place == index->end() || place->second != name) {
          Fail(ErrorKind::kData, FilePath(name), ": tensor ", Quoted(entry.name), " is here, but ", kHfIndexName,
               place == index->end() ? " does not have it" : " says that it is in " + Excerpt(place->second));
        }
      }
      const std::string& dtype = entry.dtype;
      if (dtype != "F32" && dtype != "F16" && dtype != "BF16" && dtype != "I64" && dtype != "I32") {
        Fail(ErrorKind::kData, FilePath(name), ": tensor ", Quoted(entry.name), " is ", dtype,
             "; weights of F32, F16 and BF16 can be read, and buffers of I64 and I32");
      }
      tensors_.emplace(entry.name, PublishedTensorEntry{dtype, entry.shape});
      places_.emplace(entry.name, TensorInFile{FilePath(name), &header, &entry});
    }
  }
  if (index == nullptr) return;
  for (const auto& [tensor, file] : *index) {
    if (tensors_.count(tensor) == 0) {
      Fail(ErrorKind::kData, FilePath(file), ": has no tensor ", Quoted(tensor), ", which ", kHfIndexName,
           " says is there");
    }
  }
}

const PublishedForm& HuggingFaceFolder::form() const {
  const Json* const type = config().Find("model_type");
  std::vector<std::string> names;
  for (const PublishedForm* form : PublishedForms()) {
    names.emplace_back(form->model_type);
    if (type != nullptr && type->is_string() && type->AsString() == names.back()) return *form;
  }
  Fail(ErrorKind::kData, ConfigPath(),
       ": model_type: ", type == nullptr ? "is missing" : Excerpt(type->Dump()) + " is not read here", "; ",
       Join(names, ", "), " are read");
}

Tensor HuggingFaceFolder::ReadTensor(const std::string& name) const { return crosstalk::ReadTensor(places_.at(name)); }

bool HuggingFaceFolder::AreSame(const std::string& one, const std::string& other) const {
  const TensorInFile &a = places_.at(one), &b = places_.at(other);
  return a.entry->dtype == b.entry->dtype ? crosstalk::AreSame(a, b) : PublishedFolder::AreSame(one, other);
}

}  // namespace crosstalk
