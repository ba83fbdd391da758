#include "crosstalk/models/interop/import.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <system_error>
#include <utility>

#include "crosstalk/models/interop/hugging_face.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/models/interop/sentence_folder.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/tokenizer_files.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/record.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/storage.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr char kRecordName[] = "published.json";
constexpr char kRecordConfigName[] = "published.config.json";
constexpr char kRecordTensorsName[] = "published.safetensors";
constexpr char kKeptPrefix[] = "published-";

// Files beside config.json and the weights that belong to the model.
constexpr const char* kCompanions[] = {"spiece.model",      kMeshTokenizerName,      "tokenizer.model",
                                       "vocab.txt",         "tokenizer.json",        "vocab.json",
                                       "merges.txt",        "tokenizer_config.json", "special_tokens_map.json",
                                       "added_tokens.json", kGenerationConfigName};

std::vector<KeptFile> CompanionsOf(const PublishedFolder& folder) {
  std::vector<KeptFile> files;
  for (const char* name : kCompanions) {
    if (std::optional<std::string> contents = folder.Contents(name)) files.push_back({name, *std::move(contents)});
  }
  return files;
}

// The ids that the model is told of, and those of the tokenizer, must be the same; of several ends it has one.
void CheckTokenizer(const Tokenizer& tokenizer, const ModelConfig& model, const PublishedFolder& folder) {
  if (tokenizer.vocab_size() > model.vocabulary) {
    Fail(ErrorKind::kData, folder.path(), ": the tokenizer has ", tokenizer.vocab_size(), " ids, but the model only ",
         model.vocabulary);
  }
  const SpecialTokens& ours = model.tokens;
  const SpecialTokens& theirs = tokenizer.special_tokens();
  const auto check = [&](const char* name, int32_t in_model, int32_t in_tokenizer) {
    if (in_model == kNoToken || in_tokenizer == kNoToken || in_model == in_tokenizer) return;
    Fail(ErrorKind::kData, folder.path(), ": ", name, " is the id ", in_model, " in ", folder.config_name(), ", but ",
         in_tokenizer, " in the tokenizer");
  };
  check("pad_token_id", ours.pad, theirs.pad);
  if (!model.EndsText(theirs.end)) check("eos_token_id", ours.end, theirs.end);
}

// The options of its attention, where they can say it: those of the first layer that has projections, for a bilinear
// layer has nothing that they would say of the others.
void DescribeAttention(const std::vector<AttentionPlace>& places, ModelConfig& model) {
  const auto projected = std::find_if(places.begin(), places.end(), [](const AttentionPlace& place) {
    return place.config.form == AttentionForm::kProjected;
  });
  const AttentionConfig& layer = projected == places.end() ? places.front().config : projected->config;
  model.attention = OptionsOf(layer);
  model.attention_scale = layer.scale == 1.0 ? AttentionScale::kFolded : AttentionScale::kExplicit;
  model.keys_values = layer.key_value;
  model.mixing_init = layer.mixing_init;
  if (layer.rotary != Rotary::kNone) {
    model.positions = PositionScheme::kRotary;
    model.rotary = layer.rotary;
    model.rotary_base = layer.rotary_frequencies.base;
  }
  // An encoder's are its kind's.
  if (model.name == "lm" && layer.projection_biases) {
    model.projection_biases = layer.output_bias ? ProjectionBiases::kAll : ProjectionBiases::kQueryKeyValue;
  }
  model.implementation = layer.implementation;
  // A folder with extensions has each layer's kind, and not the list that they repeat.
  if (model.layer_kinds.empty()) {
    for (const auto* each : {&model.encoder_self_layers, &model.decoder_self_layers, &model.encoder_decoder_layers}) {
      for (size_t i = model.layer_kinds.size(); i < each->size(); ++i) {
        model.layer_kinds.push_back(OptionsOf((*each)[i]).kind);
      }
    }
  }
  if (model.name != "t5") return;
  const auto describe = [&model](const AttentionConfig& place, const std::vector<AttentionConfig>& each,
                                 std::optional<AttentionKind>* kind) {
    const AttentionKind own = OptionsOf(place).kind;
    if (each.empty() && (own != model.attention.kind || !model.layer_kinds.empty())) *kind = own;
  };
  describe(model.encoder_self, model.encoder_self_layers, &model.encoder_self_kind);
  describe(model.decoder_self, model.decoder_self_layers, &model.decoder_self_kind);
  describe(model.encoder_decoder, model.encoder_decoder_layers, &model.encoder_decoder_kind);
}

ResolvedConfig DescribeTraining(const Model& published) {
  TrainingConfig config;
  config.model = published.config();
  DescribeAttention(published.AttentionPlaces(), config.model);
  // That is of new weights: the default.
  config.model.initial_stddev.reset();
  int64_t& input_length = config.objective.input_length;
  input_length = config.model.WithinPositions(input_length);
  // A second sentence needs a second kind of segment, which RoBERTa lacks.
  if (config.model.segments == 1) config.objective.sentence_task = SentenceTask::kNone;
  const int64_t sentinels = ObjectiveOf(config).tokenizer.sentinels;
  config.data.vocabulary = std::max<int64_t>(kSmallestSentencePieceVocabulary, config.model.vocabulary - sentinels);
  return ResolvedConfig(config);
}

// Sentinels of a tokenizer that does not say them: Hugging Face's files do.
int SentinelsOf(const PublishedFolder& folder, const ModelConfig& model) {
  if (folder.format() != PublishedFormat::kMesh) return 0;
  return FindObjective(FindModel(model.name).objectives[0]).tokenizer.sentinels;
}

// What the model makes of two rows of ids, the same for every model of its vocabulary: its logits, or where it has
// none its last states; in detail, which the composed implementation computes, then by the model's own.
struct FixedOutputs {
  std::vector<NamedVariable> composed, own;
};
FixedOutputs OutputsOfFixedIds(const Model& model) {
  const ModelConfig& config = model.config();
  const int64_t n = std::min<int64_t>(16, config.longest_text().value_or(16));
  const Tensor ids = Tensor::Empty({2, n}, DType::kInt32);
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    auto id = static_cast<int32_t>((7919 * i + 5) % config.vocabulary);
    if (id == config.tokens.pad) id = id > 0 ? id - 1 : 1;
    ids.data<int32_t>()[i] = id;
  }
  Batch inputs;
  inputs.Add("input_ids", config.heads.multiple_choice ? ids.Reshape({1, 2, n}) : ids);
  if (config.name == "t5" && config.num_decoder_layers() > 0) inputs.Add("decoder_input_ids", ids);
  const ContextScope no_grad = NoGrad();
  const auto outputs_of = [&](OutputDetail detail) {
    std::vector<NamedVariable> outputs = model.Outputs(inputs, detail, ForwardContext());
    const auto has = [](const char* end) {
      return [end](const NamedVariable& output) { return output.name.ends_with(end); };
    };
    const bool logits = std::any_of(outputs.begin(), outputs.end(), has("logits"));
    std::erase_if(outputs, std::not_fn(has(logits ? "logits" : "last_hidden_state")));
    return outputs;
  };
  return {outputs_of(OutputDetail::kAll), outputs_of(OutputDetail::kResults)};
}

double LargestDifference(const std::vector<NamedVariable>& a, const std::vector<NamedVariable>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const Tensor x = a[i].value.value().Contiguous(), y = b[i].value.value().Contiguous();
    for (int64_t k = 0; k < x.num_elements(); ++k) {
      const double difference = std::abs(double{x.data<float>()[k]} - double{y.data<float>()[k]});
      if (!(difference <= largest)) largest = difference;
    }
  }
  return largest;
}

std::shared_ptr<const Tokenizer> OwnTokenizer(const PublishedFolder& folder, const PublishedModel& published,
                                              std::vector<std::string>* remarks) {
  try {
    return PublishedTokenizer(folder, *published.model, remarks);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    FailField(ErrorKind::kData, "tokenizer", error.what(), "; \"", kNoTokenizer, "\" leaves it out");
  }
}

bool IsWithin(const std::string& path, const std::string& folder) {
  std::error_code error;
  return std::filesystem::equivalent(std::filesystem::path(path).parent_path(), folder, error);
}

// published.json: what a PublishedRecord has beside its own files, and the names of the KeptFiles.
struct RecordFile {
  PublishedFormat format = PublishedFormat::kHuggingFace;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> files;
  std::vector<PublishedRecord::StoredTensor> tensors;

  static FieldTable<RecordFile> Fields() {
    return {MakeConstantField<RecordFile>("format", 1),
            {"published_as", &RecordFile::format, {.may_be_missing = true}},
            {"metadata", &RecordFile::metadata, {.may_have_nul = true}},
            {"files", &RecordFile::files},
            {"tensors", &RecordFile::tensors}};
  }
  static constexpr UnknownKeys kUnknownKeys = UnknownKeys::kPassedOver;
};

std::vector<CheckpointFile> CheckpointFilesOf(const PublishedModel& published, const Tokenizer* tokenizer,
                                              const ResolvedConfig& training, const std::vector<KeptFile>& kept) {
  const PublishedRecord& record = published.record;
  RecordFile record_file = {record.format, record.metadata, {}, record.tensors};
  for (const KeptFile& file : kept) record_file.files.push_back(file.name);
  std::vector<CheckpointFile> files = ModelFiles(*published.model, training, tokenizer);
  files.push_back(BytesFile(kRecordName, ToJson(record_file).DumpPretty()));
  files.push_back(BytesFile(kRecordConfigName, record.config_text));
  files.push_back({kRecordTensorsName, [&record](FileWriter& file) { WriteSafetensors(file, record.without_effect); }});
  for (const KeptFile& file : kept) files.push_back(BytesFile(kKeptPrefix + file.name, file.contents));
  return files;
}

}  // namespace

ImportResult ImportModel(const std::string& path, const std::string& out, const ImportOptions& options) {
  CheckNewDirectory(out);
  const std::unique_ptr<PublishedFolder> opened = OpenPublishedFolder(path, options.mesh);
  const PublishedFolder& folder = *opened;
  FixedOutputs before;
  if (!options.attention.empty()) before = OutputsOfFixedIds(*LoadPublishedModel(folder, {}).model);
  ReleaseCachedMemory();  // of that model, before the next takes as much
  ThrowIfStopped(options.stop);
  PublishedModel published =
      LoadPublishedModel(folder, {.attention = options.attention, .mixing_init = options.mixing_init});
  ThrowIfStopped(options.stop);
  if (const std::string value = NonFiniteValue(*published.model); !value.empty()) {
    Fail(ErrorKind::kData, folder.path(), ": ", value);
  }
  ImportResult result;
  if (!options.attention.empty()) {
    const FixedOutputs after = OutputsOfFixedIds(*published.model);
    result.difference = {LargestDifference(before.composed, after.composed), LargestDifference(before.own, after.own)};
  }
  result.remarks = folder.remarks();
  result.remarks.insert(result.remarks.end(), published.remarks.begin(), published.remarks.end());
  if (folder.Contents(kModulesName)) {
    result.remarks.push_back(StrCat(folder.FilePath(kModulesName), ": is not kept; embed reads the folder itself"));
  }
  result.description = published.model->Describe();
  result.parameters = published.model->NumParameters();
  const ResolvedConfig training = DescribeTraining(*published.model);
  std::vector<KeptFile> kept = CompanionsOf(folder);
  std::shared_ptr<const Tokenizer> tokenizer;
  if (options.tokenizer.empty()) {
    tokenizer = OwnTokenizer(folder, published, &result.remarks);
  } else {
    if (options.tokenizer != kNoTokenizer) {
      tokenizer = OpenTokenizer(options.tokenizer, SentinelsOf(folder, published.model->config()), &result.remarks);
      CheckTokenizer(*tokenizer, published.model->config(), folder);
    }
    // Its own files stay where they are those of the tokenizer, chosen among them.
    if (!IsWithin(options.tokenizer, folder.path())) {
      std::erase_if(kept, [](const KeptFile& file) { return file.name != kGenerationConfigName; });
    }
  }
  if (tokenizer != nullptr) CheckKept(*tokenizer, ObjectiveOf(*training).tokenizer.sentinels);
  ThrowIfStopped(options.stop);
  DirectoryTransaction transaction(out, OldDirectory::kKept);
  CheckpointStore store(RunFolder(transaction.temporary_path()).CheckpointDirectory());
  store.Save(0, CheckpointFilesOf(published, tokenizer.get(), training, kept));
  ThrowIfStopped(options.stop);
  transaction.Commit();
  return result;
}

std::shared_ptr<const Tokenizer> PublishedTokenizer(const PublishedFolder& folder, const Model& model,
                                                    std::vector<std::string>* remarks) {
  if (!HoldsTokenizer(folder.path())) {
    remarks->push_back(
        StrCat(folder.path(), ": has no tokenizer; the model computes on ids, but reads and writes no text"));
    return nullptr;
  }
  std::shared_ptr<const Tokenizer> tokenizer =
      OpenTokenizer(folder.path(), SentinelsOf(folder, model.config()), remarks);
  CheckTokenizer(*tokenizer, model.config(), folder);
  return tokenizer;
}

namespace {

// Reads them from a checkpoint's folder; null if that is not imported.
std::shared_ptr<ImportedFiles> ReadImportedFiles(const std::string& checkpoint) {
  const auto path_of = [&](const std::string& name) { return checkpoint + "/" + name; };
  const std::string path = path_of(kRecordName);
  if (KindOf(path) == PathKind::kNothing) return nullptr;
  const auto imported = std::make_shared<ImportedFiles>();
  auto file = ReadRecord<RecordFile>(path);
  imported->record.format = file.format;
  imported->record.metadata = std::move(file.metadata);
  imported->record.tensors = std::move(file.tensors);
  for (const std::string& name : file.files) {
    const bool there = IsPlainName(name) && KindOf(path_of(kKeptPrefix + name)) != PathKind::kNothing;
    if (!there) Fail(ErrorKind::kData, path, ": files: ", Quoted(name), " is not there");
    imported->files.push_back({name, ReadFile(path_of(kKeptPrefix + name))});
  }
  imported->record.config_text = ReadFile(path_of(kRecordConfigName));
  imported->record.without_effect = ReadSafetensors(path_of(kRecordTensorsName)).tensors;
  return imported;
}

// A published folder's tokenizer, as its use asks for it.
std::shared_ptr<const Tokenizer> ReadTokenizer(const PublishedFolder& folder, const PublishedModel& published,
                                               TokenizerUse use, std::vector<std::string>* remarks) {
  try {
    std::shared_ptr<const Tokenizer> tokenizer = PublishedTokenizer(folder, *published.model, remarks);
    if (tokenizer == nullptr && use == TokenizerUse::kNeeded) {
      Fail(ErrorKind::kData, remarks->back(), ": put the tokenizer's files into the folder");
    }
    return tokenizer;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData || use == TokenizerUse::kNeeded) throw;
    remarks->push_back(StrCat("its tokenizer cannot be read: ", error.what(),
                              "; the model computes on ids, but reads and writes no text"));
    return nullptr;
  }
}

Trained OpenPublished(const std::string& path, const OpenOptions& options) {
  const std::unique_ptr<PublishedFolder> folder = OpenPublishedFolder(path);
  PublishedModel published =
      LoadPublishedModel(*folder, {.dtype = options.dtype, .implementation = options.implementation});
  Trained trained;
  trained.checkpoint = folder->path();
  trained.imported = std::make_shared<ImportedFiles>();
  if (options.tokenizer != TokenizerUse::kNone) {
    trained.tokenizer = ReadTokenizer(*folder, published, options.tokenizer, &trained.remarks);
    if (trained.tokenizer != nullptr) trained.config = *DescribeTraining(*published.model);
    trained.imported->files = CompanionsOf(*folder);
  }
  trained.imported->record = std::move(published.record);
  trained.model = std::move(published.model);
  return trained;
}

}  // namespace

Trained Open(const std::string& path, const OpenOptions& options) {
  const bool fused = options.implementation == AttentionImplementation::kFused;
  CROSSTALK_CHECK_FIELD(!fused || options.dtype == DType::kFloat32, "implementation",
                        "fused computes in float32, and not in ", options.dtype, "; composed does");
  Trained trained;
  if (RunFolder(path).HoldsRun() || HasManifest(path)) {
    trained = OpenRun(path, options);
    trained.imported = ReadImportedFiles(trained.checkpoint);
  } else if (IsPublished(path)) {
    trained = OpenPublished(path, options);
  } else if (KindOf(path) == PathKind::kNothing) {
    Fail(ErrorKind::kData, path, ": there is no such file or folder");
  } else {
    Fail(ErrorKind::kData, path,
         ": holds no run, no checkpoint and no published model (no run.json, no manifest.json, ",
         "no config.json and no index of a TensorFlow checkpoint)");
  }
  if (!fused) return trained;
  for (const AttentionPlace& place : trained.model->AttentionPlaces()) {
    CROSSTALK_CHECK_FIELD(ImplementationFor(place.config, options.dtype, AttentionOutputs::kOutputOnly) ==
                              AttentionImplementation::kFused,
                          "implementation", "fused has no kernel for the ", place.name, " of ", trained.checkpoint,
                          "; composed computes it");
  }
  return trained;
}

const PublishedForm* FormOf(const Trained& trained) {
  const PublishedRecord* const record = trained.imported == nullptr ? nullptr : &trained.imported->record;
  const std::vector<const PublishedForm*> forms =
      FormsOf(trained.model->config().name, record == nullptr ? PublishedFormat::kHuggingFace : record->format);
  if (record == nullptr && trained.model->config().name == "lm") return nullptr;
  if (forms.size() > 1 && record != nullptr) {
    const Json config = ParseJson(record->config_text, trained.checkpoint + ": config.json");
    const Json* const type = config.Find("model_type");
    for (const PublishedForm* form : forms) {
      if (type != nullptr && *type == Json(form->model_type)) return form;
    }
  }
  return forms.empty() ? nullptr : forms.front();
}

std::vector<std::string> PublishedClasses(const Trained& trained) {
  std::vector<std::string> names;
  if (trained.imported == nullptr || trained.imported->record.format != PublishedFormat::kHuggingFace) return names;
  const Json config = ParseJson(trained.imported->record.config_text, trained.checkpoint + ": config.json");
  for (int64_t i = 0; i < trained.model->heads().classes; ++i) {
    const Json* const labels = config.Find("id2label");
    const Json* const name = labels == nullptr ? nullptr : labels->Find(std::to_string(i));
    if (name == nullptr || !name->is_string()) return {};
    names.push_back(name->AsString());
  }
  return names;
}

}  // namespace crosstalk
