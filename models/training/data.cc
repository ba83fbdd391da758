#include "crosstalk/models/training/data.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "crosstalk/models/objectives/prefetch.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/stories/synthetic_corpus.h"
#include "crosstalk/models/text/text_sampling.h"
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

std::shared_ptr<const Tokenizer> TrainNamedTokenizer(const TrainingConfig& config, const TextCorpus& corpus,
                                                     const StopRequest& stop) {
  SentencePieceTraining options;
  options.vocab_size = static_cast<int>(config.vocabulary);
  return TrainTokenizer(*corpus.training, options, kDefaultSentinels, stop);
}

std::unique_ptr<ExampleSource> MakeTrainingExamples(const TrainingConfig& config, const TextCorpus& corpus,
                                                    const std::shared_ptr<const Tokenizer>& tokenizer) {
  return FindObjective(*config.objective)
      .make(config, {corpus.training, tokenizer, TextSource::Order::kShuffled, config.seed});
}

}  // namespace

std::unique_ptr<Tokenizer> LoadNamedTokenizer(const TrainingConfig& config) {
  if (config.tokenizer == "bytes") return MakeByteTokenizer();
  std::error_code error;
  if (std::filesystem::status(config.tokenizer, error).type() == std::filesystem::file_type::not_found) {
    const std::string name = std::filesystem::path(config.tokenizer).filename().string();
    FailField(ErrorKind::kData, "tokenizer", Quoted(config.tokenizer), " is neither bytes nor sentencepiece nor a file",
              DidYouMean(name, {"bytes", "sentencepiece"}));
  }
  return LoadTokenizerFile(config.tokenizer);
}

TextCorpus OpenCorpus(const TrainingConfig& config, const StopRequest& stop) {
  if (config.data.empty()) {
    CROSSTALK_CHECK_FIELD(config.validation.empty(), "validation",
                          "needs data beside it: the built-in corpus holds out its own part");
    return MakeSyntheticCorpus(kDataSeed);
  }
  FileCorpusOptions options;
  options.path = config.data;
  options.validation_path = config.validation;
  options.seed = kDataSeed;
  return OpenFileCorpus(options, stop);
}

TrainingData OpenTrainingData(const TrainingConfig& config, const std::optional<std::string>& kept_tokenizer,
                              const StopRequest& stop) {
  TrainingData data;
  data.corpus = OpenCorpus(config, stop);
  data.fingerprint = Fingerprint(data.corpus);
  if (kept_tokenizer) {
    data.tokenizer = LoadTokenizerFile(*kept_tokenizer);
  } else if (config.tokenizer == "sentencepiece") {
    data.tokenizer = TrainNamedTokenizer(config, data.corpus, stop);
  } else {
    data.tokenizer = LoadNamedTokenizer(config);
  }
  return data;
}

TrainingData CheckTrainingData(const TrainingConfig& config) {
  constexpr int64_t kQuickBytes = 256 << 10;  // a tokenizer is trained on them in about a second
  TrainingData data;
  data.corpus = OpenCorpus(config);
  if (config.tokenizer != "sentencepiece") {
    data.tokenizer = LoadNamedTokenizer(config);
  } else if (data.corpus.training->num_bytes().value_or(INT64_MAX) <= kQuickBytes) {
    data.tokenizer = TrainNamedTokenizer(config, data.corpus, {});
  }
  const std::shared_ptr<const Tokenizer> tokenizer = data.tokenizer ? data.tokenizer : MakeByteTokenizer();
  MakeEvaluation(config, data.corpus.validation, tokenizer);
  MakeTrainingExamples(config, data.corpus, tokenizer);
  return data;
}

std::unique_ptr<BatchSource> MakeBatches(const TrainingConfig& config, const TrainingData& data) {
  return MakePrefetchingBatches(MakeTrainingBatches(MakeTrainingExamples(config, data.corpus, data.tokenizer),
                                                    config.batch / config.accumulate, config.accumulate),
                                config.accumulate);
}

std::unique_ptr<EvaluationBatches> MakeEvaluation(const TrainingConfig& config, std::shared_ptr<const TextSource> text,
                                                  std::shared_ptr<const Tokenizer> tokenizer, EvaluationExtent extent) {
  std::shared_ptr<const ExampleSource> examples =
      FindObjective(*config.objective)
          .make(config, {std::move(text), std::move(tokenizer), TextSource::Order::kSequential, kDataSeed});
  const int64_t most =
      extent == EvaluationExtent::kWholeText ? INT64_MAX : SaturatingProduct(config.eval_batches, config.batch);
  return std::make_unique<EvaluationBatches>(std::move(examples), config.batch / config.accumulate, most);
}

}  // namespace crosstalk
