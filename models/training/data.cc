#include "crosstalk/models/training/data.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "crosstalk/models/text/bpe_training.h"
#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/puzzles.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/models/text/tokenizer_files.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

constexpr uint64_t kDataSeed = 0;            // of what must not vary with the seed
constexpr int64_t kFingerprintSamples = 16;  // of each part
constexpr int64_t kFingerprintBytes = 512;   // at least, of each sample

std::string Fingerprint(const TextCorpus& corpus) {
  Crc64 whole, samples;
  bool has_end = true;
  for (const TextSource* source : {corpus.training.get(), corpus.validation.get()}) {
    if (const std::optional<uint64_t> checksum = source->checksum()) {
      whole.Update(StrCat(*source->num_bytes(), " ", *checksum, "\n"));
      continue;
    }
    has_end = false;
    samples.Update(std::to_string(source->num_bytes().value_or(-1)));
    SegmentSampler segments(*source, kFingerprintSamples, kFingerprintBytes);
    for (std::string text; segments.Next(&text);) samples.Update(text);
  }
  return has_end ? "whole-" + ChecksumText(whole.value()) : ChecksumText(samples.value());
}

// Makes the tokenizers that are trained on the training part.
std::shared_ptr<const Tokenizer> TrainNamedTokenizer(const TrainingConfig& config, const TextCorpus& corpus,
                                                     const StopRequest& stop) {
  const TokenizerNeeds& needs = ObjectiveOf(config).tokenizer;
  if (config.data.tokenizer == "characters") {
    return CollectCharacterTokenizer(*corpus.training, config.data.vocabulary, needs.sentinels, stop,
                                     needs.mask_tokens);
  }
  const auto vocabulary = static_cast<int>(config.data.vocabulary);
  if (config.data.tokenizer == "bpe") {
    return TrainBpeTokenizer(*corpus.training, {.vocab_size = vocabulary, .mask_tokens = needs.mask_tokens},
                             needs.sentinels, stop);
  }
  SentencePieceTraining options;
  options.vocab_size = vocabulary;
  options.line_ends = needs.line_ends;
  options.mask_tokens = needs.mask_tokens;
  return TrainTokenizer(*corpus.training, options, needs.sentinels, stop);
}

std::unique_ptr<ExampleSource> MakeTrainingExamples(const TrainingConfig& config, const TrainingData& data,
                                                    const std::shared_ptr<const Tokenizer>& tokenizer,
                                                    const StopRequest& stop = {}) {
  return ObjectiveOf(config).make(config.objective, {data.corpus.training, tokenizer, TextSource::Order::kShuffled,
                                                     config.optimization.seed, data.tasks, stop});
}

// Everything but the tokenizer.
TrainingData OpenWhatIsLearnt(const TrainingConfig& config, const StopRequest& stop) {
  TrainingData data;
  if (ObjectiveOf(config).learns_tasks()) {
    data.tasks = std::make_shared<TaskSet>(OpenTasks(config, stop));
    data.description = data.tasks->description;
    data.fingerprint = data.tasks->fingerprint;
  } else {
    data.corpus = OpenCorpus(config, stop);
    data.description = data.corpus.description;
    data.fingerprint = Fingerprint(data.corpus);
  }
  return data;
}

}  // namespace

const std::vector<std::string>& NamedTokenizers() {
  static const std::vector<std::string> names = {"bytes", "characters", "sentencepiece", "bpe"};
  return names;
}

bool IsTrainedTokenizer(const std::string& name) {
  const std::vector<std::string>& names = NamedTokenizers();
  return name != "bytes" && std::find(names.begin(), names.end(), name) != names.end();
}

std::shared_ptr<const Tokenizer> LoadNamedTokenizer(const TrainingConfig& config, std::vector<std::string>* remarks) {
  const TokenizerNeeds& needs = ObjectiveOf(config).tokenizer;
  if (config.data.tokenizer == "bytes") return MakeByteTokenizer(needs.sentinels, needs.mask_tokens);
  std::error_code error;
  if (std::filesystem::status(config.data.tokenizer, error).type() == std::filesystem::file_type::not_found) {
    const std::string name = std::filesystem::path(config.data.tokenizer).filename().string();
    FailField(ErrorKind::kData, "tokenizer", Quoted(config.data.tokenizer), " is neither ",
              Join(NamedTokenizers(), " nor "), " nor a file", DidYouMean(name, NamedTokenizers()));
  }
  return OpenTokenizer(config.data.tokenizer, needs.sentinels, remarks);
}

std::string UnknownTokensWarning(const TextSource& text, const Tokenizer& tokenizer) {
  constexpr int64_t kSamples = 16, kSampleBytes = 4096;
  int64_t tokens = 0, unknown = 0;
  SegmentSampler samples(text, kSamples, kSampleBytes);
  for (std::string segment; samples.Next(&segment);) {
    for (const int32_t id : tokenizer.Encode(segment)) {
      ++tokens;
      unknown += id == tokenizer.special_tokens().unknown;
    }
  }
  if (unknown * 100 <= tokens) return "";
  return StrCat(100 * unknown / tokens, " % of the tokens of ", text.Describe(),
                " are unknown to the tokenizer, which reads them all as one: the measure says little. ",
                tokenizer.kind() == "characters" ? "A larger vocabulary, bytes or sentencepiece knows more."
                                                 : "A tokenizer of this text knows more.");
}

TaskSet OpenTasks(const TrainingConfig& config, const StopRequest& stop) {
  return OpenTasks(ParseTasks(config.objective.tasks), config.objective.task_data, stop);
}

TextCorpus OpenCorpus(const TrainingConfig& config, const StopRequest& stop) {
  if (config.data.text.empty()) {
    CROSSTALK_CHECK_FIELD(config.data.validation.empty(), "validation",
                          "needs data beside it: the built-in corpus holds out its own part");
    CROSSTALK_CHECK_FIELD(config.data.text_field == kTextField, "text_field",
                          "needs data beside it: the built-in corpus has no fields");
    const CorpusKind kind = config.data.corpus;
    return kind == CorpusKind::kStories ? MakeSyntheticCorpus(kDataSeed) : MakePuzzleCorpus(kind, kDataSeed);
  }
  CROSSTALK_CHECK_FIELD(config.data.corpus == CorpusKind::kStories, "corpus", Name(config.data.corpus),
                        " is built in, and data says another text; give one");
  FileCorpusOptions options;
  options.path = config.data.text;
  options.validation_path = config.data.validation;
  options.text_field = config.data.text_field;
  options.seed = kDataSeed;
  return OpenFileCorpus(options, stop);
}

namespace {

// Tasks have rows, not a text that a tokenizer could be made from.
void CheckTokenizerOfTasks(const TrainingConfig& config, const Tokenizer* kept) {
  if (!ObjectiveOf(config).learns_tasks() || kept != nullptr || !IsTrainedTokenizer(config.data.tokenizer)) return;
  FailField(ErrorKind::kUsage, "tokenizer", config.data.tokenizer,
            " is made from text, and tasks have none: begin with a model that has one, or name bytes or a tokenizer's "
            "file");
}

}  // namespace

TrainingData OpenTrainingData(const TrainingConfig& config, std::shared_ptr<const Tokenizer> kept_tokenizer,
                              const StopRequest& stop) {
  CheckTokenizerOfTasks(config, kept_tokenizer.get());
  TrainingData data = OpenWhatIsLearnt(config, stop);
  if (kept_tokenizer != nullptr) {
    data.tokenizer = std::move(kept_tokenizer);
  } else if (IsTrainedTokenizer(config.data.tokenizer)) {
    data.tokenizer = TrainNamedTokenizer(config, data.corpus, stop);
  } else {
    data.tokenizer = LoadNamedTokenizer(config, &data.remarks);
  }
  CheckKept(*data.tokenizer, ObjectiveOf(config).tokenizer.sentinels);
  return data;
}

TrainingData CheckTrainingData(const TrainingConfig& config, std::shared_ptr<const Tokenizer> kept_tokenizer) {
  // A tokenizer is made from them in about a second.
  const int64_t quick_bytes = config.data.tokenizer == "characters" ? 64 << 20
                              : config.data.tokenizer == "bpe"      ? 4 << 20
                                                                    : 256 << 10;
  CheckTokenizerOfTasks(config, kept_tokenizer.get());
  TrainingData data = OpenWhatIsLearnt(config, {});
  if (kept_tokenizer != nullptr) {
    data.tokenizer = std::move(kept_tokenizer);
  } else if (!IsTrainedTokenizer(config.data.tokenizer)) {
    data.tokenizer = LoadNamedTokenizer(config, &data.remarks);
  } else if (data.corpus.training->num_bytes().value_or(INT64_MAX) <= quick_bytes) {
    data.tokenizer = TrainNamedTokenizer(config, data.corpus, {});
  }
  const TokenizerNeeds& needs = ObjectiveOf(config).tokenizer;
  if (data.tokenizer != nullptr) CheckKept(*data.tokenizer, needs.sentinels);
  const std::shared_ptr<const Tokenizer> tokenizer =
      data.tokenizer ? data.tokenizer : MakeByteTokenizer(needs.sentinels, needs.mask_tokens);
  if (data.tasks == nullptr) MakeEvaluation(config, data.corpus.validation, tokenizer);
  MakeTrainingExamples(config, data, tokenizer);
  return data;
}

int64_t CountTrainingExamples(const TrainingConfig& config, const TrainingData& data) {
  return MakeTrainingExamples(config, data, data.tokenizer)->num_places();
}

std::unique_ptr<BatchSource> MakeBatches(const TrainingConfig& config, const TrainingData& data,
                                         std::vector<int64_t> parts, const StopRequest& stop) {
  return MakePrefetchingBatches(MakeTrainingBatches(MakeTrainingExamples(config, data, data.tokenizer, stop),
                                                    config.optimization.batch, config.optimization.shards),
                                std::move(parts));
}

std::unique_ptr<EvaluationBatches> MakeEvaluation(const TrainingConfig& config, std::shared_ptr<const TextSource> text,
                                                  std::shared_ptr<const Tokenizer> tokenizer, EvaluationExtent extent) {
  std::shared_ptr<const ExampleSource> examples = ObjectiveOf(config).make(
      config.objective, {std::move(text), std::move(tokenizer), TextSource::Order::kSequential, kDataSeed});
  const int64_t most = extent == EvaluationExtent::kWholeText
                           ? INT64_MAX
                           : SaturatingProduct(config.run.eval_batches, config.optimization.batch);
  return std::make_unique<EvaluationBatches>(std::move(examples), RowsAtATime(config.optimization), most);
}

std::unique_ptr<HeldOut> MakeHeldOut(const TrainingConfig& config, const TrainingData& data) {
  if (data.tasks != nullptr) return MakeHeldOutTasks(config, data.tasks, data.tokenizer);
  return MakeHeldOutText(MakeEvaluation(config, data.corpus.validation, data.tokenizer));
}

}  // namespace crosstalk
