#include "crosstalk/models/interop/sentence_folder.h"

#include <algorithm>
#include <string_view>

#include "crosstalk/models/interop/hugging_face.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr char kBertConfigName[] = "sentence_bert_config.json", kPromptsName[] = "config_sentence_transformers.json";
constexpr std::string_view kModeKey = "pooling_mode_";

// The keys pooling_mode_KEY of a Pooling; a newer one says "pooling_mode": "NAME".
struct PoolingName {
  std::string_view key, name;
  Pooling pooling;
};
constexpr PoolingName kPoolings[] = {{"cls_token", "cls", Pooling::kCls},
                                     {"mean_tokens", "mean", Pooling::kMean},
                                     {"max_tokens", "max", Pooling::kMax},
                                     {"lasttoken", "lasttoken", Pooling::kLast}};

std::optional<Json> ReadObject(const std::string& path) {
  if (KindOf(path) == PathKind::kNothing) return std::nullopt;
  Json json = ReadJsonFile(path);
  if (!json.is_object()) Fail(ErrorKind::kData, path, ": is not an object");
  return json;
}

Pooling ReadPooling(const std::string& path, int64_t d_model) {
  const std::optional<Json> json = ReadObject(path);
  if (!json) Fail(ErrorKind::kData, path, ": is missing");
  const JsonReader reader(*json, path);
  if (reader.Has("word_embedding_dimension")) {
    const int64_t width = reader.Int("word_embedding_dimension", 0, 1 << 24);
    if (width != d_model) reader.FailAt("word_embedding_dimension", "is ", width, ", but the model has ", d_model);
  }
  std::vector<std::string> modes;
  if (reader.Has("pooling_mode")) modes.push_back(reader.String("pooling_mode"));
  for (const auto& [key, value] : json->AsObject()) {
    if (!key.starts_with(kModeKey) || !reader.Bool(key.c_str())) continue;
    const std::string mode = key.substr(kModeKey.size());
    const auto row = std::find_if(std::begin(kPoolings), std::end(kPoolings),
                                  [&](const PoolingName& one) { return mode == one.key; });
    modes.push_back(row == std::end(kPoolings) ? mode : std::string(row->name));
  }
  std::vector<std::string> can;
  for (const PoolingName& row : kPoolings) {
    can.emplace_back(row.name);
    if (modes.size() == 1 && modes[0] == row.name) return row.pooling;
  }
  reader.FailAt(modes.size() == 1 ? "pooling_mode" : "pooling_mode_…",
                modes.empty() ? "none" : Excerpt(Join(modes, " and ")), " is not computed; one of ", Join(can, ", "),
                " is");
}

}  // namespace

EmbedOptions SentenceOptions(const std::string& folder, const ModelConfig& model, std::vector<std::string>* remarks) {
  EmbedOptions options;
  const std::string path = folder + "/" + kModulesName;
  if (!IsHuggingFaceFolder(folder) || KindOf(path) == PathKind::kNothing) return options;
  const Json modules = ReadJsonFile(path);
  if (!modules.is_array()) Fail(ErrorKind::kData, path, ": is not a list");
  std::string before;
  for (const Json& module : modules.AsArray()) {
    if (!module.is_object()) Fail(ErrorKind::kData, path, ": holds what is no module: ", Excerpt(module.Dump()));
    const JsonReader reader(module, path);
    const std::string type = reader.String("type"), place = reader.Has("path") ? reader.String("path") : "";
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name == "Transformer" && before.empty()) {
      if (!place.empty()) reader.FailAt("path", "the model is in ", Excerpt(place), ", which is not read from here");
    } else if (name == "Pooling" && before == "Transformer") {
      if (!IsPlainName(place)) reader.FailAt("path", Excerpt(place), " is not a name of a folder in it");
      options.pooling = ReadPooling(folder + "/" + place + "/config.json", model.d_model);
    } else if (name == "Normalize" && before == "Pooling") {
      options.normalize = true;
    } else {
      reader.FailAt("type", Excerpt(type), before.empty() ? "" : " after " + before,
                    " is not computed; Transformer, then Pooling, then Normalize or nothing is");
    }
    before = name;
  }
  if (before != "Pooling" && before != "Normalize") Fail(ErrorKind::kData, path, ": names no Pooling");
  if (const std::optional<Json> json = ReadObject(folder + "/" + kBertConfigName)) {
    const JsonReader reader(*json, folder + "/" + kBertConfigName);
    if (reader.Has("max_seq_length") && !reader.Value("max_seq_length").is_null()) {
      options.max_length = reader.Int("max_seq_length", 1, 1 << 24);
      if (const auto longest = model.longest_text()) options.max_length = std::min(*options.max_length, *longest);
    }
    if (reader.Has("do_lower_case") && reader.Bool("do_lower_case")) {
      reader.FailAt("do_lower_case", "true is not computed; the tokenizer's own rules are");
    }
  }
  if (const std::optional<Json> json = ReadObject(folder + "/" + kPromptsName)) {
    const Json* const prompt = json->Find("default_prompt_name");
    if (prompt != nullptr && !prompt->is_null()) {
      remarks->push_back(StrCat(folder, "/", kPromptsName, ": default_prompt_name: the prompt ",
                                Excerpt(prompt->Dump()), " is not put before texts; give texts that begin with it"));
    }
  }
  return options;
}

}  // namespace crosstalk
