// 4. Crosstalk inside another program: trains a small T5 on the built-in corpus, keeps the weights in a safetensors
// file, and reads them back into a second model, which then computes the same.
//
//   embed_training [STEPS [FILE]]
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/runtime/safetensors.h"

using namespace crosstalk;

namespace {

ModelConfig SmallModel(int64_t vocabulary) {
  ModelConfig config = BaseT5();
  config.vocabulary = vocabulary;
  config.d_model = 64;
  config.d_ff = 128;
  config.layers = 1;
  config.decoder_layers = 1;
  config.SetAttention(AttentionConfig::TalkingHeads(/*d_model=*/64, /*h_k=*/4, /*h=*/4, /*h_v=*/4, /*d_k=*/16,
                                                    /*d_v=*/16));
  return config;
}

int Run(int steps, const char* path) {
  constexpr uint64_t seed = 1;
  const TextCorpus corpus = MakeSyntheticCorpus(seed);
  const std::shared_ptr<const Tokenizer> tokenizer = MakeByteTokenizer();
  TrainingConfig text;
  text.objective.input_length = 64;
  // The objective turns a text into examples: of the training part in an order of the seed's, of the other as it
  // stands.
  const auto examples = [&](std::shared_ptr<const TextSource> source, TextSource::Order order) {
    return FindObjective("span-corruption").make(text.objective, {std::move(source), tokenizer, order, seed});
  };

  T5 model(SmallModel(tokenizer->vocab_size()), seed);
  Adafactor optimizer(model.Parameters());
  LocalReducer reducer(/*parts=*/1);
  const auto batches = MakePrefetchingBatches(
      MakeTrainingBatches(examples(corpus.training, TextSource::Order::kShuffled), /*batch=*/8, /*parts=*/1),
      reducer.parts());
  LoopOptions options;
  options.schedule = {.warmup_steps = 10, .total_steps = steps};
  options.seed = seed;
  TrainingObserver observer;
  observer.step = [](const StepResult& result) {
    if (result.step % 10 == 0)
      std::printf("step %3lld  ln(PPL) %.3f\n", static_cast<long long>(result.step), result.metrics[0].value);
  };
  Loop(model, *batches, optimizer, reducer, options, observer).Train(steps);

  const EvaluationBatches held_out(examples(corpus.validation, TextSource::Order::kSequential), /*rows=*/8,
                                   /*max_examples=*/32);
  const double before = Evaluate(model, held_out).metrics[0].value;
  WriteSafetensors(path, ParameterTensors(model));
  T5 copy(model.config(), /*seed=*/2);
  LoadParameters(ReadSafetensors(path), copy);
  const double after = Evaluate(copy, held_out).metrics[0].value;
  std::printf("held out  ln(PPL) %.3f, after a trip through %s: %.3f\n", before, path, after);
  return before == after ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc > 1 ? std::atoi(argv[1]) : 30, argc > 2 ? argv[2] : "embed_training.safetensors");
  } catch (const Error& error) {
    std::fprintf(stderr, "embed_training: %s\n", error.what());
    return static_cast<int>(error.kind());
  }
}
