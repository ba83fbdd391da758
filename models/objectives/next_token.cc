#include "crosstalk/models/objectives/next_token.h"

#include <utility>
#include <vector>

#include "crosstalk/models/objectives/config.h"
#include "crosstalk/models/objectives/token_rows.h"
#include "crosstalk/models/text/dataset.h"
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
    WriteTokenRow({chunk.begin(), chunk.end() - 1}, {chunk.begin() + 1, chunk.end()}, row, batch);
    batch.tokens += n_;
  }

  int64_t num_places() const override { return dataset_.chunks_per_epoch(); }

  std::optional<LossBound> LossLowerBound(int64_t place, int64_t /*index*/) const override {
    std::vector<bool> hidden(static_cast<size_t>(n_ + 1), true);
    hidden[0] = false;
    const std::optional<double> nats = dataset_.LossLowerBound(place, hidden);
    if (!nats) return std::nullopt;
    return LossBound{*nats, n_};
  }

 private:
  ExampleInputs inputs_;
  int64_t n_;
  ChunkDataset dataset_;
};

}  // namespace

std::string DescribeNextToken(const ObjectiveConfig& config) { return StrCat(config.input_length, " tokens"); }

Batch EmptyNextTokenBatch(const ObjectiveConfig& config, const SpecialTokens& tokens, int64_t rows) {
  return EmptyTokenRows(rows, config.input_length, config.input_length, tokens.pad);
}

std::unique_ptr<ExampleSource> MakeNextTokenExamples(const ObjectiveConfig& config, ExampleInputs inputs) {
  return std::make_unique<NextTokenExamples>(config, std::move(inputs));
}

}  // namespace crosstalk
