// A training run's data: the corpus or the tasks that a configuration names, the tokenizer, and the batches
// made of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/models/training/objectives/batches.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct TrainingData {
  TextCorpus corpus;                     // of an objective that learns from text
  std::shared_ptr<const TaskSet> tasks;  // of one that learns tasks; else null
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string description;  // of the corpus or the tasks, for people
  // Identifies all text of both parts; the samples of a text without end; the rows of tasks. Runs with different ones
  // did not see the same. "KIND:DIGITS"; two of different kinds tell nothing about each other.
  std::string fingerprint;
  std::vector<std::string> remarks;  // on the tokenizer's files, sentences for the user
};

// Opens the corpus; makes, loads or trains the tokenizer. A run that goes on, or has its weights from another, gives
// the tokenizer that is kept with them, which then is the tokenizer whatever `config` says. What is held out, and what
// a tokenizer is trained on, does not depend on the seed, so that runs of several seeds can be compared. Error(kData)
// for text or a tokenizer that cannot be used. Interrupted where `stop` says so.
TrainingData OpenTrainingData(const TrainingConfig& config, std::shared_ptr<const Tokenizer> kept_tokenizer = nullptr,
                              const StopRequest& stop = {});

// The data that a new run would open, with the same Errors: for a dry run. Long text takes no
// tokenizer to be made from it: it is long enough for one of bytes, and `tokenizer` is null.
TrainingData CheckTrainingData(const TrainingConfig& config, std::shared_ptr<const Tokenizer> kept_tokenizer = nullptr);

// The tokenizers that are made here: all that the field "tokenizer" can be but a file's path.
const std::vector<std::string>& NamedTokenizers();
// Those of them that are made from the training part.
bool IsTrainedTokenizer(const std::string& name);
// One that needs no text: of bytes, or from a file. Error(kData) of the field "tokenizer" for anything else.
std::shared_ptr<const Tokenizer> LoadNamedTokenizer(const TrainingConfig& config,
                                                    std::vector<std::string>* remarks = nullptr);

// A sentence for the user where the tokenizer does not know more than a hundredth of a text's tokens, on a sample: a
// model learns the unknown token quickly, and its measure says little. Empty otherwise.
std::string UnknownTokensWarning(const TextSource& text, const Tokenizer& tokenizer);

// The tasks alone, and the corpus alone.
TaskSet OpenTasks(const TrainingConfig& config, const StopRequest& stop = {});
TextCorpus OpenCorpus(const TrainingConfig& config, const StopRequest& stop = {});

// The examples of the training part under the configuration's objective, in batches, those of `parts` of a step made
// ahead on a thread. Interrupted where `stop` says so while they are prepared.
std::unique_ptr<BatchSource> MakeBatches(const TrainingConfig& config, const TrainingData& data,
                                         std::vector<int64_t> parts, const StopRequest& stop = {});
// Examples of one pass over what is trained on.
int64_t CountTrainingExamples(const TrainingConfig& config, const TrainingData& data);
// Held-out examples of `text`, the same for every seed; at most eval_batches batches, or the whole text.
enum class EvaluationExtent { kEvalBatches, kWholeText };
std::unique_ptr<EvaluationBatches> MakeEvaluation(const TrainingConfig& config, std::shared_ptr<const TextSource> text,
                                                  std::shared_ptr<const Tokenizer> tokenizer,
                                                  EvaluationExtent extent = EvaluationExtent::kEvalBatches);
// A run's evaluation data: the held-out text of its corpus, or the held-out rows of its tasks.
std::unique_ptr<HeldOut> MakeHeldOut(const TrainingConfig& config, const TrainingData& data);

}  // namespace crosstalk
#pragma GCC visibility pop
