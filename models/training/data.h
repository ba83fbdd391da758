// The text side of a training run: the corpus that a configuration names, its tokenizer, and the batches made of them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "crosstalk/models/objectives/batches.h"
#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"

namespace crosstalk {

struct TrainingData {
  TextCorpus corpus;
  std::shared_ptr<const Tokenizer> tokenizer;
  // A checksum over samples of both parts: runs with different ones did not see the same text.
  std::string fingerprint;
};

// Opens the corpus; makes, loads or trains the tokenizer. A run that goes on gives the path of the tokenizer's file
// that it has kept, which then is the tokenizer whatever `config` says. What is held out, and what a tokenizer is
// trained on, does not depend on the seed, so that runs of several seeds can be compared.
// Error(kData) for text or a tokenizer that cannot be used.
TrainingData OpenTrainingData(const TrainingConfig& config, const std::optional<std::string>& kept_tokenizer);

// The corpus alone.
TextCorpus OpenCorpus(const TrainingConfig& config);

// With one batch ahead made on a thread of its own.
std::unique_ptr<BatchSource> MakeBatches(const TrainingConfig& config, const TrainingData& data);
// The first config.eval_batches · config.batch examples of `source`, the same for every seed.
std::unique_ptr<EvaluationBatches> MakeEvaluation(const TrainingConfig& config,
                                                  std::shared_ptr<const TextSource> source,
                                                  std::shared_ptr<const Tokenizer> tokenizer);

// Input and target positions of a batch's rows.
SpanLengths BatchLengths(const TrainingConfig& config);

}  // namespace crosstalk
