// The objective of language models: of a chunk of n + 1 tokens the rows `inputs` int32[b, n], all but the last, and
// `targets` int32[b, n], all but the first; kNoToken for what the text does not ask for. n is input_length.
#include <algorithm>
#include <utility>
#include <vector>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

class NextTokenExamples : public ExampleSource {
 public:
  NextTokenExamples(const ObjectiveConfig& config, ExampleInputs inputs)
      : inputs_(std::move(inputs)),
        n_(config.input_length),
        dataset_(inputs_.text, inputs_.tokenizer, n_ + 1, inputs_.seed, inputs_.order) {}

  Batch EmptyBatch(int64_t rows) const override {
    return EmptyTokenRows(rows, n_, n_, inputs_.tokenizer->special_tokens().pad);
  }

  void Write(int64_t place, int64_t /*index*/, Batch& batch, int64_t row) const override {
    const std::vector<int32_t> chunk = dataset_.Chunk(place);
    std::vector<int32_t> targets(chunk.begin() + 1, chunk.end());
    const std::vector<bool> asked = TargetsOf(place);
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!asked[i + 1]) targets[i] = kNoToken;
    }
    WriteTokenRow({chunk.begin(), chunk.end() - 1}, targets, row, batch);
    batch.tokens += n_;
  }

  int64_t num_places() const override { return dataset_.chunks_per_epoch(); }

  std::optional<LossBound> EntropyBound(int64_t place, int64_t /*index*/) const override {
    const std::vector<bool> hidden = TargetsOf(place);
    const std::optional<double> nats = dataset_.EntropyBound(place, hidden);
    if (!nats) return std::nullopt;
    return LossBound{*nats, std::count(hidden.begin(), hidden.end(), true)};
  }

 private:
  // Which tokens of a chunk are targets: never the first.
  std::vector<bool> TargetsOf(int64_t place) const {
    std::vector<bool> targets = dataset_.AskedFor(place);
    targets[0] = false;
    CROSSTALK_CHECK_FIELD(std::find(targets.begin(), targets.end(), true) != targets.end(), "input_length",
                          inputs_.text->Describe(), " asks for nothing in the first ", n_, " tokens of an example");
    return targets;
  }

  ExampleInputs inputs_;
  int64_t n_;
  ChunkDataset dataset_;
};

}  // namespace

ObjectiveType NextToken() {
  return {.name = "next-token",
          .tokenizer = {.line_ends = LineEnds::kKept},
          .own = {},
          .describe = [](const ObjectiveConfig& config) { return StrCat(config.input_length, " tokens"); },
          .empty_batch =
              [](const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows) {
                return EmptyTokenRows(rows, config.input_length, config.input_length, tokens.pad);
              },
          .make = MakeExamples<NextTokenExamples>};
}

}  // namespace crosstalk
