#include "crosstalk/models/training/data.h"

#include <filesystem>
#include <utility>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/sampled_stretches.h"
#include "crosstalk/models/text/stories/synthetic_corpus.h"
#include "crosstalk/runtime/checksum.h"

namespace crosstalk {

namespace {

constexpr uint64_t kDataSeed = 0;            // of what must not vary with --seed
constexpr int64_t kFingerprintSamples = 16;  // of each part
constexpr int64_t kFingerprintBytes = 512;   // at least, of each sample

std::string Fingerprint(const TextCorpus& corpus) {
  Crc64 checksum;
  for (const TextSource* source : {corpus.training.get(), corpus.validation.get()}) {
    checksum.Update(std::to_string(source->num_bytes().value_or(-1)));
    SampledStretches samples(*source, kFingerprintSamples, kFingerprintBytes);
    for (std::string text; samples.Next(&text);) checksum.Update(text);
  }
  return ChecksumText(checksum.value());
}

BatchOptions MakeBatchOptions(const TrainingConfig& config, uint64_t seed) {
  BatchOptions options;
  options.batch_size = config.batch / config.accumulate;
  options.micro_batches = config.accumulate;
  options.input_length = config.input_length;
  options.seed = seed;
  return options;
}

}  // namespace

TextCorpus OpenCorpus(const TrainingConfig& config) {
  if (config.data.empty()) {
    CROSSTALK_CHECK(config.validation.empty(), "--validation needs --data: the built-in corpus holds out its own part");
    return MakeSyntheticCorpus(kDataSeed);
  }
  FileCorpusOptions options;
  options.path = config.data;
  options.validation_path = config.validation;
  options.seed = kDataSeed;
  return OpenFileCorpus(options);
}

TrainingData OpenTrainingData(const TrainingConfig& config, const std::optional<std::string>& kept_tokenizer) {
  TrainingData data;
  data.corpus = OpenCorpus(config);
  data.fingerprint = Fingerprint(data.corpus);
  if (kept_tokenizer) {
    data.tokenizer = LoadTokenizerFile(*kept_tokenizer);
  } else if (config.tokenizer == "bytes") {
    data.tokenizer = MakeByteTokenizer();
  } else if (config.tokenizer == "sentencepiece") {
    SentencePieceTraining options;
    options.vocab_size = static_cast<int>(config.vocabulary);
    data.tokenizer = TrainTokenizer(*data.corpus.training, options);
  } else {
    if (!std::filesystem::exists(config.tokenizer)) {
      Fail(ErrorKind::kData, "--tokenizer: ", config.tokenizer, " is neither bytes nor sentencepiece nor a file");
    }
    data.tokenizer = LoadTokenizerFile(config.tokenizer);
  }
  return data;
}

std::unique_ptr<BatchSource> MakeBatches(const TrainingConfig& config, const TrainingData& data) {
  return MakePrefetchingBatches(
      MakeTrainingBatches(data.corpus.training, data.tokenizer, MakeBatchOptions(config, config.seed)),
      config.accumulate);
}

std::unique_ptr<EvaluationBatches> MakeEvaluation(const TrainingConfig& config,
                                                  std::shared_ptr<const TextSource> source,
                                                  std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_unique<EvaluationBatches>(std::move(source), std::move(tokenizer),
                                             MakeBatchOptions(config, kDataSeed), config.eval_batches * config.batch);
}

SpanLengths BatchLengths(const TrainingConfig& config) {
  return LengthsForInputs(config.input_length, SpanCorruptionOptions());
}

}  // namespace crosstalk
