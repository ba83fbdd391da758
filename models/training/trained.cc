#include "crosstalk/models/training/trained.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

std::shared_ptr<const Tokenizer> ReadTokenizer(const Checkpoint& checkpoint, const TrainingConfig& config,
                                               TokenizerUse use) {
  if (use == TokenizerUse::kNone) return nullptr;
  if (use == TokenizerUse::kWhereThere && !RunFolder(checkpoint.path).TokenizerFile()) return nullptr;
  return LoadTokenizerFile(TokenizerPath(checkpoint), ObjectiveOf(config).tokenizer.sentinels);
}

std::string ChecksumOf(const Checkpoint& checkpoint, const char* file) {
  const auto found = checkpoint.checksums.find(file);
  return found == checkpoint.checksums.end() ? "" : found->second;
}

std::unique_ptr<Model> ReadModel(const Checkpoint& checkpoint, const CheckpointConfig& config,
                                 const Tokenizer* tokenizer, const OpenOptions& options) {
  const std::string source = checkpoint.FilePath(kConfigName) + ": model";
  ModelConfig model_config = ReadModelConfig(config.model, source);
  // Published models may have ids above their tokenizer's, which no text has.
  if (tokenizer != nullptr && tokenizer->vocab_size() > model_config.vocabulary) {
    Fail(ErrorKind::kData, checkpoint.path, ": the tokenizer has ", tokenizer->vocab_size(),
         " ids, but the model only ", model_config.vocabulary);
  }
  if (options.implementation) model_config.SetImplementation(*options.implementation);
  std::unique_ptr<Model> model =
      LoadModel(model_config, source, ReadSafetensors(checkpoint.FilePath(kModelName)), options.dtype);
  if (options.dtype == DType::kFloat32) model->SetPrecision(config.training.optimization.precision);
  return model;
}

Trained ReadCheckpoint(const Checkpoint& checkpoint, const OpenOptions& options) {
  const CheckpointConfig config = ReadCheckpointConfig(checkpoint);
  Trained trained;
  trained.config = config.training;
  trained.step = checkpoint.step;
  trained.checkpoint = checkpoint.path;
  trained.weights_checksum = ChecksumOf(checkpoint, kModelName);
  trained.optimizer_checksum = ChecksumOf(checkpoint, kOptimizerName);
  trained.has_optimizer_state = !trained.optimizer_checksum.empty();
  if (trained.weights_checksum.empty()) Fail(ErrorKind::kData, checkpoint.path, ": has no ", kModelName);
  CROSSTALK_CHECK_FIELD(options.parts != TrainedParts::kOptimizer || trained.has_optimizer_state, "optimizer_start",
                        checkpoint.path,
                        " has no optimizer's state to carry over, as no published model has: choose fresh");
  if (options.parts == TrainedParts::kConfig) return trained;
  trained.tokenizer = ReadTokenizer(checkpoint, config.training, options.tokenizer);
  if (options.parts == TrainedParts::kTokenizer) return trained;
  trained.model = ReadModel(checkpoint, config, trained.tokenizer.get(), options);
  if (options.parts == TrainedParts::kModel) return trained;
  trained.optimizer_state = ReadSafetensors(checkpoint.FilePath(kOptimizerName));
  return trained;
}

// A run without its checkpoints, as far as it has a tokenizer's file. Its origin may be gone: the optimizer's state is
// taken to be there where it was carried over.
Trained ReadOutline(const RunFolder& folder) {
  const std::optional<std::string> file = folder.TokenizerFile();
  Trained outline = file ? Trained() : OpenRun(folder.path(), {.parts = TrainedParts::kTokenizer});
  outline.config = ReadRunConfig(folder);
  if (file) outline.tokenizer = LoadTokenizerFile(*file, ObjectiveOf(outline.config).tokenizer.sentinels);
  outline.has_optimizer_state = outline.config.optimization.optimizer_start == OptimizerStart::kCarried;
  return outline;
}

FoundCheckpoint Find(const RunFolder& folder, WhichCheckpoint which) {
  const CheckpointStore store(folder.CheckpointDirectory());
  if (which == WhichCheckpoint::kBest) return store.FindBest();
  const FoundCheckpoint newest = store.FindNewestGood();
  if (which == WhichCheckpoint::kNewest || !newest.checkpoint) return newest;
  try {
    if (!ObjectiveOf(ReadCheckpointConfig(*newest.checkpoint).training).learns_tasks()) return newest;
  } catch (const Error&) {
    if (KindOf(newest.checkpoint->path) != PathKind::kNothing) throw;
    return Find(folder, which);  // a training that goes on has removed it
  }
  const FoundCheckpoint best = store.FindBest();
  return !best.checkpoint && !best.better ? newest : best;
}

}  // namespace

Trained OpenRun(const std::string& path, const OpenOptions& options) {
  const RunFolder folder(path);
  if (!folder.HoldsRun()) return ReadCheckpoint(VerifyCheckpoint(path), options);
  if (options.which == WhichCheckpoint::kNone) return ReadOutline(folder);
  if (folder.HasRunFile()) folder.ReadRunFile();
  while (true) {
    const FoundCheckpoint found = Find(folder, options.which);
    if (found.checkpoint && found.better) {
      FailField(ErrorKind::kData, "checkpoint", path, ": a damaged one is the best, or may be: ", found.better->reason,
                "\nname another one; or remove this one, and the best of the others is the best");
    }
    const bool finished = KindOf(folder.ModelFile()) != PathKind::kNothing;
    const bool none = CheckpointStore(folder.CheckpointDirectory()).Steps().empty();
    if (!found.checkpoint && found.skipped.empty() && none && !finished) {
      Fail(ErrorKind::kData, path, ": has no checkpoint yet; its training saves them by checkpoint_every = ",
           *ReadRunConfig(folder).run.checkpoint_every,
           ", at its end and where it is interrupted: wait for the first, or train with a smaller checkpoint_every");
    }
    if (!found.checkpoint) {
      Fail(ErrorKind::kData, path, ": has no good checkpoint",
           options.which == WhichCheckpoint::kBest ? " with a score" : "",
           found.skipped.empty() ? "" : ":" + Lines(ReasonsOf(found.skipped)));
    }
    try {
      Trained trained = ReadCheckpoint(*found.checkpoint, options);
      trained.skipped = ReasonsOf(found.skipped);
      return trained;
    } catch (const Error&) {
      // A training that goes on in the run removes a checkpoint only when there is a newer one.
      if (KindOf(found.checkpoint->path) != PathKind::kNothing) throw;
    }
  }
}

std::vector<CheckpointFile> ModelFiles(const Model& model, const ResolvedConfig& config, const Tokenizer* tokenizer) {
  const CheckpointConfig described = {.training = *config, .model = model.config().ToJson(), .fingerprint = ""};
  std::vector<CheckpointFile> files = {
      {kModelName, [&model](FileWriter& file) { WriteSafetensors(file, ParameterTensors(model)); }},
      BytesFile(kConfigName, ToJson(described).DumpPretty())};
  if (tokenizer != nullptr) files.push_back(BytesFile(tokenizer->FileName(), tokenizer->FileContents()));
  return files;
}

void SaveModel(const std::string& folder, const Model& model, const ResolvedConfig& config, const Tokenizer* tokenizer,
               const Optimizer* optimizer) {
  CROSSTALK_CHECK_FIELD(model.dtype() == DType::kFloat32, "dtype", "the model is in ", model.dtype(),
                        ", and a folder keeps float32: open it in float32 to save it");
  if (const std::string value = NonFiniteValue(model); !value.empty()) {
    Fail(ErrorKind::kNumerical, folder, ": nothing is saved: ", value);
  }
  const RunFolder run(folder);
  CROSSTALK_CHECK(!run.HasRunFile(), folder,
                  ": holds a training's run, which its training saves; choose another folder");
  const std::optional<std::string> foreign = run.ForeignName();
  CROSSTALK_CHECK(!foreign, folder, ": holds files that are not a run's (", *foreign, "); choose a new folder");
  const RunLock lock(folder);
  CheckpointStore store(run.CheckpointDirectory());
  const int64_t step = optimizer == nullptr ? 0 : optimizer->step();
  for (const int64_t later : store.Steps()) {
    CROSSTALK_CHECK(later <= step, folder, ": holds a checkpoint of step ", later,
                    ", which would stay the newest after ", "one of step ", step, "; choose another folder");
  }
  std::vector<CheckpointFile> files = ModelFiles(model, config, tokenizer);
  if (optimizer != nullptr) {
    files.push_back({kOptimizerName, [&](FileWriter& file) { WriteSafetensors(file, optimizer->State()); }});
  }
  lock.CheckHeld();
  store.RemoveStale();
  store.Save(step, files);
  store.Prune(static_cast<int>(config->run.keep));
}

TrainingConfig ReadRunConfig(const RunFolder& folder) {
  if (!folder.HasRunFile() && folder.HoldsRun()) {
    const FoundCheckpoint found = CheckpointStore(folder.CheckpointDirectory()).FindNewestGood();
    if (found.checkpoint) return ReadCheckpointConfig(*found.checkpoint).training;
    Fail(ErrorKind::kData, folder.path(),
         ": run.json is missing, and no checkpoint is good:", Lines(ReasonsOf(found.skipped)));
  }
  const Json run = folder.ReadRunFile();
  const Json* configuration = run.Find("configuration");
  if (configuration == nullptr) Fail(ErrorKind::kData, folder.RunFile(), ": has no configuration");
  return TrainingConfigFromJson(*configuration, folder.RunFile() + ": configuration");
}

namespace {

constexpr char kField[] = "init_from";

}  // namespace

FieldTable<Origin> Origin::Fields() {
  return {{"checkpoint", &Origin::checkpoint},
          {"step", &Origin::step},
          {"weights", &Origin::weights},
          {"optimizer_state", &Origin::optimizer_state, {.only_if_set = true}}};
}

Origin OriginOf(const Trained& origin, OptimizerStart start) {
  return {origin.checkpoint, origin.step, origin.weights_checksum,
          start == OptimizerStart::kCarried ? origin.optimizer_checksum : ""};
}

Trained LoadOrigin(const std::string& path, TrainedParts parts) {
  CROSSTALK_CHECK_FIELD(KindOf(path) != PathKind::kNothing, kField, Quoted(path),
                        ": there is no run or checkpoint there");
  CROSSTALK_CHECK_FIELD(KindOf(path) == PathKind::kDirectory, kField, Quoted(path),
                        " is a file; name a run's folder or one of its checkpoints");
  const auto has = [&](const char* name) { return KindOf(path + "/" + name) != PathKind::kNothing; };
  CROSSTALK_CHECK_FIELD(!has("config.json") || has("manifest.json"), kField, Quoted(path),
                        " is a published model's folder; import it first");
  try {
    return OpenRun(path, {.parts = parts});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    FailField(ErrorKind::kData, kField, error.what(), "\nname another run's folder, or a checkpoint that is whole");
  }
}

Trained LoadOrigin(const std::string& path, OptimizerStart start) {
  return LoadOrigin(path, start == OptimizerStart::kCarried ? TrainedParts::kOptimizer : TrainedParts::kModel);
}

FieldTable<TrainingConfig> FixedFields() {
  FieldTable<TrainingConfig> fields = TrainingFields();
  std::erase_if(fields, [](const auto& field) { return field.options.inherited != Inherited::kFixed; });
  return fields;
}

void TakeModelOf(const TrainingConfig& origin, TrainingConfig& config) {
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (field.options.inherited != Inherited::kNo) field.set(config, field.get(origin));
  }
}

std::shared_ptr<const Tokenizer> TokenizerOf(const Trained& origin, const TrainingConfig& config) {
  const TrainingConfig& before = origin.config;
  return config.data.tokenizer == before.data.tokenizer && config.data.vocabulary == before.data.vocabulary
             ? origin.tokenizer
             : nullptr;
}

void CheckModelOf(const Trained& origin, const TrainingConfig& config, const Tokenizer& tokenizer) {
  const Tokenizer& before = *origin.tokenizer;
  const std::string& path = origin.checkpoint;
  // As many ids are not enough: an id with another text would have the weights of its old text.
  const bool same = tokenizer.kind() == before.kind() && tokenizer.vocab_size() == before.vocab_size() &&
                    tokenizer.FileContents() == before.FileContents();
  CROSSTALK_CHECK_FIELD(same, "tokenizer", config.data.tokenizer, " gives one of kind ", tokenizer.kind(), " with ",
                        tokenizer.vocab_size(), " ids, which is not the one that the weights of ", path,
                        " are for, of kind ", before.kind(), " with ", before.vocab_size(), " ids; leave out ",
                        FieldName{"tokenizer"}, " and ", FieldName{"vocabulary"}, " to take the origin's");
  const FieldTable<TrainingConfig> fields = FixedFields();
  const std::vector<Message> differences = FieldDifferences(fields, config, origin.config);
  if (differences.empty()) return;
  TrainingConfig there = config;
  for (const Field<TrainingConfig>& field : fields) field.set(there, field.get(origin.config));
  const Vocabulary vocabulary = VocabularyOf(config, &tokenizer);
  if (ConfigureModel(config, vocabulary).ToJson() == ConfigureModel(there, vocabulary).ToJson()) return;
  Message all;
  for (const Message& one : differences) all.Add("\n  ", one);
  FailField(ErrorKind::kUsage, kField, path, " is of another model:", all,
            "\nleave these options out to take the origin's");
}

namespace {

// The head that a parameter is of; empty: none.
std::string HeadOf(const std::string& parameter, const ModelType& type) {
  for (const char* head : type.heads) {
    if (parameter.starts_with(std::string(head) + ".")) return head;
  }
  return "";
}

void AddOnce(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// The origin's, except heads that it lacks or has in another shape.
class OriginParameters : public StoredParameters {
 public:
  OriginParameters(TensorFile file, const ModelType& type)
      : StoredParameters(std::move(file), "the configuration"), type_(type) {}

  Tensor Take(const std::string& name, const Shape& shape, DType dtype) override {
    const std::string head = HeadOf(name, type_);
    if (head.empty()) return StoredParameters::Take(name, shape, dtype);
    if (!Holds(name, shape)) {
      AddOnce(begun_, head);
      return {};
    }
    AddOnce(taken_, head);
    return StoredParameters::Take(name, shape, dtype);
  }
  const std::vector<std::string>& begun() const { return begun_; }
  // Whole heads.
  std::vector<std::string> taken() const {
    std::vector<std::string> heads = taken_;
    std::erase_if(heads, [&](const std::string& head) { return std::count(begun_.begin(), begun_.end(), head) > 0; });
    return heads;
  }
  std::vector<std::string> left_out() const {
    std::vector<std::string> heads;
    for (const std::string& name : Unused()) AddOnce(heads, HeadOf(name, type_));
    return heads;
  }

 protected:
  bool IsOptional(const std::string& name) const override { return !HeadOf(name, type_).empty(); }

 private:
  const ModelType& type_;
  std::vector<std::string> begun_, taken_;
};

}  // namespace

ModelOfOrigin LoadModelOf(const Trained& origin, const ModelConfig& model, uint64_t seed) {
  const ModelType& type = FindModel(origin.config.model.name);
  ModelOfOrigin loaded;
  try {
    const auto stored = std::make_shared<OriginParameters>(
        TensorFile{origin.checkpoint + "/" + kModelName, ParameterTensors(*origin.model), {}}, type);
    loaded.model = LoadModel(model, "the configuration", stored, DType::kFloat32, seed);
    loaded.begun = stored->begun();
    loaded.taken = stored->taken();
    loaded.left_out = stored->left_out();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    FailField(ErrorKind::kData, kField, error.what(),
              "\nleave out the options that set such sizes to take the origin's");
  }
  return loaded;
}

FieldTable<CheckpointConfig> CheckpointConfig::Fields() {
  using Config = CheckpointConfig;
  return {MakeConstantField<Config>("format", kRunFormat),
          {"version", &Config::version},
          {"data_fingerprint", &Config::fingerprint},
          {"training", &Config::training},
          {"model", &Config::model},
          {"origin", &Config::origin, {.only_if_set = true}}};
}

void CheckpointConfig::Validate() const {
  const bool begins_with_one = !training.optimization.init_from.empty();
  CROSSTALK_CHECK_FIELD(origin || !begins_with_one, "origin", "is missing");
  CROSSTALK_CHECK_FIELD(!origin || begins_with_one, "origin", "is not a key that is known here");
}

CheckpointConfig ReadCheckpointConfig(const Checkpoint& checkpoint) {
  return ReadRecord<CheckpointConfig>(checkpoint.FilePath(kConfigName));
}

std::string TokenizerPath(const Checkpoint& checkpoint) {
  const std::optional<std::string> path = RunFolder(checkpoint.path).TokenizerFile();
  if (!path) {
    Fail(ErrorKind::kData, checkpoint.path,
         ": has no tokenizer, so it reads and writes no text; a published model is imported again with the tokenizer's "
         "files beside its config.json");
  }
  return *path;
}

std::string Lines(const std::vector<std::string>& lines) { return "\n  " + Join(lines, "\n  "); }

std::vector<std::string> ReasonsOf(const std::vector<SkippedCheckpoint>& skipped) {
  std::vector<std::string> reasons;
  for (const SkippedCheckpoint& one : skipped) reasons.push_back(one.reason);
  return reasons;
}

}  // namespace crosstalk
