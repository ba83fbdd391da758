// A program of somebody else's that trains a model in memory on two threads, batches made ahead on a third. An
// exception it catches, prints, and tries again: the sweep looks for the ones that end it instead. Prints the loss of
// the last step, and exits with 0; with 42 if no attempt succeeded.
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <vector>

#include "crosstalk/crosstalk.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "tests/support/tiny_models.h"

namespace crosstalk {
namespace {

constexpr int kAttempts = 3;
constexpr int64_t kVocabulary = 40;

class TinyBatches : public BatchSource {
 public:
  Batch Get(int64_t step, int64_t) override {
    Batch batch;
    batch.Add("inputs", TinyIds(2, 6, kVocabulary, static_cast<uint32_t>(step)));
    batch.Add("targets", TinyIds(2, 4, kVocabulary, static_cast<uint32_t>(step)));
    batch.targets = batch.positions = 8;
    batch.tokens = 20;
    return batch;
  }
};

double Train() {
  SetNumThreads(2);
  ModelConfig config = BaseT5();
  config.vocabulary = kVocabulary;
  config.d_model = 8;
  config.d_ff = 8;
  config.layers = 1;
  config.decoder_layers = 1;
  config.SetAttention(AttentionConfig::TalkingHeads(8, 2, 2, 2, 4, 4));
  T5 model(config, 1);
  AdamW optimizer(model.Parameters());
  const std::unique_ptr<BatchSource> batches = MakePrefetchingBatches(std::make_unique<TinyBatches>(), {0});
  LocalReducer reducer;
  LoopOptions options;
  options.schedule = {.kind = ScheduleKind::kConstant, .scale = 0.01, .total_steps = 3};
  Loop loop(model, *batches, optimizer, reducer, options);
  double loss = 0;
  for (int step = 0; step < 3; ++step) loss = loop.Step().loss;
  // Bodies that allocate, on both threads.
  std::vector<double> sums(8);
  ParallelFor(8, [&](int64_t tile) {
    sums[static_cast<size_t>(tile)] = Tensor::FromValues<double>({2}, {loss, static_cast<double>(tile)}).At({1});
  });
  loss += sums[7] - 7;
  // A value that is copied, written and read again, as configurations are.
  const Json described = Json::MakeObject({{"model", model.config().ToJson()}, {"losses", Json::Array{loss, loss}}});
  Json copy;
  copy = described;
  return ParseJson(copy.Dump(), "copy").At("losses").AsArray().back().AsDouble();
}

}  // namespace
}  // namespace crosstalk

int main() {
  for (int attempt = 0; attempt < crosstalk::kAttempts; ++attempt) {
    try {
      std::printf("%.17g\n", crosstalk::Train());
      return 0;
    } catch (const crosstalk::Error& error) {
      std::fprintf(stderr, "error: kind %d: %s\n", static_cast<int>(error.kind()), error.what());
    } catch (const std::bad_alloc&) {
      std::fputs("error: std::bad_alloc\n", stderr);
    }
  }
  return 42;
}
