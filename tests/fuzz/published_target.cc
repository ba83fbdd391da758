#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/interop/hugging_face.h"
#include "crosstalk/models/interop/published_model.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/storage.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::fuzz {
namespace {

constexpr const char* kModels[] = {"t5", "bert", "albert"};

Trained TinyModel(const std::string& name) {
  TrainingConfig config;
  config.model.name = name;
  config.model.attention = {.kind = AttentionKind::kMultihead, .heads = 2};
  config.objective.input_length = 8;
  config.model.d_model = 4;
  config.model.d_ff = 6;
  config.model.layers = 2;
  if (name != "t5") config.model.positions = PositionScheme::kLearned;
  if (name == "albert") config.model.embedding_size = 2;
  Trained any;
  any.model = MakeModel(ConfigureModel(*ResolvedConfig(config), {.size = 20, .tokens = {}}), 1);
  any.checkpoint = "the seed";
  return any;
}

using Files = std::map<std::string, std::string>;

// The files of a published folder of each model.
const Files& PristineFiles(const std::string& model) {
  static std::map<std::string, Files>& all = *new std::map<std::string, Files>;
  if (all.empty()) {
    const TempDir dir;
    for (const char* name : kModels) {
      ExportModel(TinyModel(name), dir / name, {});
      for (const std::string& file : ListDirectory(dir / name)) all[name][file] = ReadFile(dir / name + "/" + file);
    }
  }
  return all.at(model);
}

// Names and shapes of what a folder holds are those of another.
void RequireSame(const HuggingFaceFolder& a, const HuggingFaceFolder& b) {
  const auto &here = a.tensors(), &there = b.tensors();
  Require(here.size() == there.size(), here.size(), " tensors became ", there.size());
  for (const auto& [name, entry] : here) {
    Require(there.count(name) > 0, name, " is not there");
    Require(a.ReadTensor(name).shape() == b.ReadTensor(name).shape(), name, " has another shape");
  }
  Require(a.config_text() == b.config_text(), "another config.json");
}

}  // namespace

// The first line is MODEL and FILE, "bert config.json": what follows stands in that file of a tiny model's folder, with
// an index of its weights where FILE is one. What is accepted takes memory in proportion to the files, and is written
// as the same folder again.
void FuzzPublished(std::string_view input) {
  const FirstLine split = SplitFirstLine(input);
  const size_t space = split.line.find(' ');
  if (space == std::string_view::npos) return;
  const std::string model(split.line.substr(0, space)), name(split.line.substr(space + 1));
  const bool index = name == kHfIndexName;
  if (!index && name != kHfConfigName && name != kHfWeightsName) return;
  if (model != "t5" && model != "bert" && model != "albert") return;
  const TempDir dir;
  const std::string path = dir / "folder";
  std::filesystem::create_directory(path);
  size_t bytes = split.rest.size();
  for (const auto& [file, content] : PristineFiles(model)) {
    const bool shard = index && file == kHfWeightsName;
    PutFile(path + "/" + (shard ? "model-1.safetensors" : file), content);
    bytes += content.size();
  }
  PutFile(path + "/" + name, split.rest);

  Trained any;
  std::optional<HuggingFaceFolder> folder;
  ResetPeakMemory();
  const int64_t before = GetMemoryStats().peak_bytes;
  const bool accepted = Accepts([&] {
    folder.emplace(path);
    PublishedModel published = LoadPublishedModel(*folder, {});
    any.model = std::move(published.model);
    any.imported = std::make_shared<ImportedFiles>(ImportedFiles{std::move(published.record), {}});
    any.checkpoint = path;
  });
  // Three times as float32, of F16; and a table's rows up to a multiple of 128, of two bytes and up.
  const int64_t taken = GetMemoryStats().peak_bytes - before;
  Require(taken <= static_cast<int64_t>(256 * bytes + (64 << 10)), taken, " bytes of tensors from ", bytes);
  if (!accepted) return;
  if (!Accepts([&] { ExportModel(any, dir / "again", {}); })) {
    Accepts([&] { ExportModel(any, dir / "again", {.extensions = Extensions::kWrite}); });
    return;
  }
  RequireSame(*folder, HuggingFaceFolder(dir / "again"));
}

}  // namespace crosstalk::fuzz
