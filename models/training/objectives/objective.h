// Objectives: what is learnt from text, or from tasks. An objective turns either into numbered examples, each a row of
// a batch's named tensors; batches.h cuts them into the steps of a run and into held-out sets. An objective is one file
// of this folder and one line of ObjectiveTypes().
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/batch.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/model_config.h"
#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

// Rounding that the host program's rounding mode does not change: for counts of tokens.

inline int64_t RoundHalfToEven(double x) {
  const double low = std::floor(x);
  const double part = x - low;
  const auto n = static_cast<int64_t>(low);
  if (part != 0.5) return part < 0.5 ? n : n + 1;
  return n % 2 == 0 ? n : n + 1;
}

// Rows of ids that a model reads and ids that it is asked for, as every objective of a text and its targets has them.

// inputs int32[rows, inputs], all `pad`, targets int32[rows, targets], all `no_target`, or `pad` too; the positions are
// the targets'.
Batch EmptyTokenRows(int64_t rows, int64_t inputs, int64_t targets, int32_t pad, std::optional<int32_t> no_target = {});

// Writes the ids of a row, padding staying after them, and counts its targets, which kNoToken is none of.
void WriteTokenRow(const std::vector<int32_t>& inputs, const std::vector<int32_t>& targets, int64_t row, Batch& batch);

}  // namespace crosstalk

#pragma GCC visibility push(default)
namespace crosstalk {

// ObjectiveConfig: what is learnt, of text or of tasks, and its table of fields.

// The fields' rows say what they mean.
struct ObjectiveConfig {
  std::optional<std::string> name;
  int64_t input_length = 128;
  double noise_density = 0.15;
  double mean_span_length = 3.0;
  std::optional<Masking> masking;
  std::optional<SentenceTask> sentence_task;
  std::optional<int64_t> most_masked;
  double short_share = 0.1;

  std::string tasks;
  std::string task_data;
  int64_t target_length = 64;
  std::optional<int64_t> mixture_cap;
  int64_t window_stride = 128;
  int64_t query_length = 64;
  int64_t answer_length = 30;
};

// The objectives that there are, and which of them read which field, are added where they are known (TrainingFields()).
const FieldTable<ObjectiveConfig>& ObjectiveFields();

class Model;

// A lower bound of an example's -ln p, in nats, as a sum over its targets.
struct LossBound {
  double nats = 0;
  int64_t targets = 0;
};

// Targets that a model's accuracy is measured on.
struct AccuracyTargets {
  const char* metric;              // "masked_accuracy": the model's name for it
  const char* tensor;              // of the batch, int32
  std::optional<int32_t> padding;  // what is no target
};

// The examples that one text gives. Thread-safe; keeps no state but what it is made from, so a resumed run needs only
// the number of the next example.
class ExampleSource {
 public:
  virtual ~ExampleSource() = default;

  // Rows of padding, with the counts of no example except `positions`.
  virtual Batch EmptyBatch(int64_t rows) const = 0;
  // Writes the example at `place` of the text (in the order that the source was made for) into a row, with the random
  // numbers of `index`, and adds it to the batch's counts: a pure function of (text, configuration, seed, place,
  // index).
  virtual void Write(int64_t place, int64_t index, Batch& batch, int64_t row) const = 0;
  // A batch that is full, as it is computed: an objective may leave out columns that are padding in every row.
  virtual Batch Finished(Batch batch) const { return batch; }
  // Places in one pass over the text; INT64_MAX if it has no end.
  virtual int64_t num_places() const = 0;
  // The targets that a constant answer can get right.
  virtual std::vector<AccuracyTargets> Answers() const { return {}; }
  // The entropy bound of this example, where the text knows it.
  virtual std::optional<LossBound> EntropyBound(int64_t place, int64_t index) const;
};

// The inputs of an example source: a text, or tasks.
struct ExampleInputs {
  std::shared_ptr<const TextSource> text;
  std::shared_ptr<const Tokenizer> tokenizer;
  TextSource::Order order = TextSource::Order::kShuffled;
  uint64_t seed = 0;
  std::shared_ptr<const TaskSet> tasks = nullptr;
  StopRequest stop = {};  // asked while much is prepared: true ends it with Interrupted
};

// An objective's requirements of a tokenizer trained for it.
struct TokenizerNeeds {
  int sentinels = 0;
  LineEnds line_ends = LineEnds::kKept;
  MaskTokens mask_tokens = MaskTokens::kNo;
};

struct ObjectiveType {
  const char* name;  // "span-corruption"
  TokenizerNeeds tokenizer;
  // The fields that this objective reads and not every objective does. Giving one to another objective is an error.
  std::vector<MemberId> own;
  // Whether a row's `inputs` go on with its targets, for a decoder alone, which then learns to write tokens.end.
  bool inputs_hold_targets = false;
  // "128 inputs and 29 targets": an example, for people.
  std::string (*describe)(const ObjectiveConfig& config);
  // ExampleSource::EmptyBatch without a text: what memory is estimated with.
  Batch (*empty_batch)(const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows);
  // The heads of an encoder that it trains; null: none.
  EncoderHeads (*heads)(const ObjectiveConfig& config) = nullptr;
  // Error(kData) for a text that is too short, Error(kUsage) for a tokenizer that will not do.
  std::unique_ptr<ExampleSource> (*make)(const ObjectiveConfig& config, ExampleInputs inputs);
  // For an objective that learns tasks and not text: how a model that it trained answers to one of them, a prediction
  // for each row. Null for text.
  std::vector<TaskPrediction> (*answer)(const ObjectiveConfig& config, const Model& model, const Tokenizer& tokenizer,
                                        const TaskType& task, const std::vector<TaskRow>& rows,
                                        const Observer& observer) = nullptr;

  bool learns_tasks() const { return answer != nullptr; }
};

const std::vector<ObjectiveType>& ObjectiveTypes();
std::vector<std::string> ObjectiveNames();
// Error(kUsage) of the field "objective" that lists the names, for any other.
const ObjectiveType& FindObjective(std::string_view name);

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// The lines of ObjectiveTypes(), each in the file of its objective.
ObjectiveType SpanCorruption();
ObjectiveType NextToken();
ObjectiveType MaskedLm();
ObjectiveType TextToText();
ObjectiveType PromptCompletion();
ObjectiveType TaskHead();

// ObjectiveType::make of a class that is constructed from the same.
template <typename Examples>
std::unique_ptr<ExampleSource> MakeExamples(const ObjectiveConfig& config, ExampleInputs inputs) {
  return std::make_unique<Examples>(config, std::move(inputs));
}

}  // namespace crosstalk
