// Whole training steps: forward, backward and the optimizer's update, on token ids drawn at random.
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/storage.h"
#include "tools/cli/output.h"
#include "tools/lab/bench/bench.h"
#include "tools/lab/bench/measured_step.h"

namespace crosstalk {
namespace {

using Parameters = std::vector<NamedParameter>;

// The model and data of a measured step.
struct StepCase {
  int64_t batch = 8;
  int64_t n = 512;
  std::function<std::unique_ptr<Model>(int64_t n)> make_model;
  std::function<std::unique_ptr<Optimizer>(Parameters parameters)> make_optimizer;
  // The batch of a step, its counts filled in.
  std::function<Batch(int64_t batch, int64_t n, int64_t step)> make_batch;
  LossOptions loss;
  double learning_rate = 1e-2;  // T5's, in its first 10,000 steps
  double clip = 0;
};

// ids int32[rows, length] in [low, high).
Tensor RandomIds(int64_t rows, int64_t length, int64_t low, int64_t high, const char* purpose, int64_t step) {
  Tensor ids = Tensor::Empty({rows, length}, DType::kInt32);
  const RandomKey key{.seed = 0, .stream = StreamId(purpose), .step = static_cast<uint32_t>(step)};
  for (int64_t i = 0; i < rows * length; ++i) {
    ids.data<int32_t>()[i] =
        static_cast<int32_t>(low + UniformInt(key, static_cast<uint64_t>(i), static_cast<uint64_t>(high - low)));
  }
  return ids;
}

AttentionConfig LayerOf(const char* kind, int64_t heads, int64_t d_model, AttentionImplementation implementation) {
  AttentionConfig attention =
      MakeAttentionConfig({.kind = ParseName<AttentionKind>("kind", kind), .heads = heads}, d_model);
  attention.implementation = implementation;
  return attention;
}

// T5's "small" sizes, on span corruption's lengths, with Adafactor.
StepCase T5Step(const char* kind, int64_t heads, AttentionImplementation implementation) {
  constexpr int64_t kTargets = 114, kInputs = 512;  // what span corruption makes of 512 inputs
  ModelConfig config = BaseT5();
  config.vocabulary = 32128;
  config.d_model = 512;
  config.d_ff = 2048;
  config.layers = 6;
  config.decoder_layers = 6;
  config.SetAttention(LayerOf(kind, heads, config.d_model, implementation));
  StepCase step;
  step.make_model = [config](int64_t) { return std::make_unique<T5>(config, 0); };
  step.make_optimizer = [](Parameters parameters) { return std::make_unique<Adafactor>(std::move(parameters)); };
  step.make_batch = [vocabulary = config.vocabulary](int64_t b, int64_t n, int64_t at) {
    const int64_t m = std::max<int64_t>(1, n * kTargets / kInputs);
    Batch batch;
    batch.Add("inputs", RandomIds(b, n, 1, vocabulary, "bench.inputs", at));
    batch.Add("targets", RandomIds(b, m, 1, vocabulary, "bench.targets", at));
    batch.targets = batch.positions = b * m;
    batch.tokens = b * (n + m);
    return batch;
  };
  step.loss = {.z_loss = 1e-4};
  return step;
}

// BERT's "base" sizes on masked tokens and sentence pairs, 4096 tokens a step; or ALBERT's, whose layers share one
// block, with LAMB.
StepCase BertStep(const char* kind, int64_t n, bool albert, AttentionImplementation implementation) {
  ModelConfig config = BaseBert();
  config.vocabulary = 30522;
  config.d_model = 768;
  config.d_ff = 3072;
  config.layers = 12;
  config.encoder_self = LayerOf(kind, 12, config.d_model, implementation);
  config.encoder_self.projection_biases = true;
  config.encoder_self.scale = 1 / std::sqrt(static_cast<double>(config.encoder_self.d_k));
  config.heads = {.pooler = true, .sentence = true, .masked_lm = true};
  if (albert) {
    config.name = "albert";
    config.embedding_size = config.d_model;
    config.layer_groups = 1;
    config.feed_forward = FeedForwardKind::kGeluTanh;
  }
  StepCase step;
  step.batch = std::max<int64_t>(1, 4096 / n);
  step.n = n;
  step.make_model = [config](int64_t length) {
    ModelConfig own = config;
    own.max_positions = std::max<int64_t>(512, length);
    return std::make_unique<Bert>(own, 0);
  };
  step.make_optimizer = [albert](Parameters parameters) -> std::unique_ptr<Optimizer> {
    const kernels::AdamWOptions published = {.bias_correction = kernels::AdamWOptions::BiasCorrection::kNo};
    if (albert) return std::make_unique<Lamb>(std::move(parameters), published);
    return std::make_unique<AdamW>(std::move(parameters), published);
  };
  step.make_batch = [vocabulary = config.vocabulary](int64_t b, int64_t length, int64_t at) {
    const int64_t masked = CeilDivide<int64_t>(length * 15, 100);  // 20 of 128, 77 of 512
    Batch batch;
    batch.Add("inputs", RandomIds(b, length, 1, vocabulary, "bench.inputs", at));
    batch.Add("segments", RandomIds(b, length, 0, 2, "bench.segments", at));
    batch.Add("masked_positions", RandomIds(b, masked, 0, length, "bench.positions", at));
    batch.Add("masked_targets", RandomIds(b, masked, 1, vocabulary, "bench.targets", at));
    batch.Add("sentence_labels", RandomIds(b, 1, 0, 2, "bench.labels", at).Reshape({b}));
    batch.targets = batch.positions = b * masked;
    batch.tokens = b * length;
    return batch;
  };
  step.learning_rate = 1e-4;
  step.clip = 1;
  return step;
}

// Finetuning a small BERT on sentences of SST-2's lengths.
StepCase FinetuningStep(AttentionImplementation implementation) {
  ModelConfig config = BaseBert();
  config.vocabulary = 8000;
  config.d_model = 128;
  config.d_ff = 512;
  config.layers = 4;
  config.max_positions = 128;
  config.encoder_self = LayerOf("multihead", 8, config.d_model, implementation);
  config.encoder_self.projection_biases = true;
  config.encoder_self.scale = 1 / std::sqrt(static_cast<double>(config.encoder_self.d_k));
  config.heads = {.pooler = true, .classes = 2};
  StepCase step;
  step.batch = 32;
  step.n = 64;
  step.make_model = [config](int64_t) { return std::make_unique<Bert>(config, 0); };
  step.make_optimizer = [](Parameters parameters) { return std::make_unique<AdamW>(std::move(parameters)); };
  step.make_batch = [vocabulary = config.vocabulary](int64_t b, int64_t length, int64_t at) {
    Batch batch;
    batch.Add("inputs", RandomIds(b, length, 1, vocabulary, "bench.inputs", at));
    batch.Add("segments", RandomIds(b, length, 0, 1, "bench.segments", at));
    batch.Add("labels", RandomIds(b, 1, 0, 2, "bench.labels", at).Reshape({b}));
    batch.targets = batch.positions = b;
    batch.tokens = b * length;
    return batch;
  };
  step.learning_rate = 1e-4;
  step.clip = 1;
  return step;
}

struct SmallSizes {
  int64_t d_model, layers, heads, n, batch;
};

// A language model of letters: that of examples/shakespeare at d_model 128, and others of its form.
StepCase LettersStep(const SmallSizes& sizes, const char* kind) {
  ModelConfig config;
  config.vocabulary = 64;
  config.d_model = sizes.d_model;
  config.d_ff = 4 * sizes.d_model;
  config.layers = sizes.layers;
  config.positions = PositionScheme::kLearned;
  config.feed_forward = FeedForwardKind::kGelu;
  config.SetAttention(LayerOf(kind, sizes.heads, sizes.d_model, AttentionImplementation::kFused));
  StepCase step;
  step.batch = sizes.batch;
  step.n = sizes.n;
  step.make_model = [config](int64_t n) {
    ModelConfig own = config;
    own.context = n;
    return std::make_unique<Lm>(own, 0);
  };
  step.make_optimizer = [](Parameters parameters) { return std::make_unique<AdamW>(std::move(parameters)); };
  step.make_batch = [vocabulary = config.vocabulary](int64_t b, int64_t n, int64_t at) {
    Batch batch;
    batch.Add("inputs", RandomIds(b, n, 1, vocabulary, "bench.inputs", at));
    batch.Add("targets", RandomIds(b, n, 1, vocabulary, "bench.targets", at));
    batch.targets = batch.positions = batch.tokens = b * n;
    return batch;
  };
  step.learning_rate = 1e-3;
  step.clip = 1;
  return step;
}

class StepPass : private BatchSource {
 public:
  StepPass(const StepCase& step, int64_t batch, int64_t n)
      : case_(step),
        batch_(batch),
        n_(n),
        model_(step.make_model(n)),
        optimizer_(step.make_optimizer(model_->Parameters())),
        loop_(*model_, *this, *optimizer_, reducer_,
              {.schedule = {.kind = ScheduleKind::kConstant, .scale = step.learning_rate},
               .clip_norm = step.clip,
               .loss = step.loss}) {}

  // In the context's precision, as layers are measured. The batch is made before the clock runs.
  PassSeconds Run() {
    model_->SetPrecision(CurrentContext().precision);
    next_ = case_.make_batch(batch_, n_, loop_.step());
    return PassOf(MeasureSteps(loop_, {})[0].result);
  }

 private:
  Batch Get(int64_t, int64_t) override { return std::move(next_); }

  StepCase case_;
  int64_t batch_, n_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  Batch next_;
  LocalReducer reducer_;
  Loop loop_;
};

// Makes PeakResidentBytes() count from here on. Memory freed by earlier cases goes back to the system first.
void ResetPeakResidentBytes(const std::string& name) {
  ReleaseCachedMemory();
  malloc_trim(0);
  try {
    FileWriter("/proc/self/clear_refs").Write("5\n");
  } catch (const Error&) {
    PrintMessage("bench: ", name,
                 ": the system cannot reset the count, so peak_resident_bytes is that of all cases so far");
  }
}

int64_t ForwardMultiplications(const StepCase& step, int64_t batch, int64_t n) {
  const Batch inputs = step.make_batch(batch, n, 0);
  int64_t multiplications = 0;
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  const ContextScope counted(&OpContext::multiplications, &multiplications);
  const ContextScope no_grad = NoGrad();
  step.make_model(n)->Loss(inputs, {}, ForwardContext());
  return CheckedMultiplications(multiplications);
}

std::vector<BenchResult> MeasureStep(const std::string& name, const StepCase& step, const BenchSettings& settings) {
  const int64_t batch = settings.batch.value_or(step.batch), n = settings.n.value_or(step.n);
  StepPass pass(step, batch, n);
  const auto tokens = static_cast<double>(step.make_batch(batch, n, 0).tokens);
  // The optimizer has its state by then, and what another precision has kept for its next step is given back.
  const auto measure_memory = [&](BenchResult& result) {
    ResetPeakResidentBytes(result.name);
    result.extra_bytes = ExtraBytesOf([&] { pass.Run(); });
    result.step = BenchResult::Step{.peak_resident_bytes = PeakResidentBytes()};
  };
  const auto multiplications = static_cast<double>(ForwardMultiplications(step, batch, n));
  std::vector<BenchResult> results = MeasurePasses(
      name, settings, multiplications, {.run = [&] { return pass.Run(); }, .measure_memory = measure_memory});
  SetStepTimes(tokens, &results);
  return results;
}

}  // namespace

std::vector<BenchCase> StepBenchCases() {
  std::vector<BenchCase> cases;
  const auto add = [&](const std::string& name, const char* goal, const char* bfloat16_goal, const auto& make) {
    for (const AttentionImplementation implementation :
         {AttentionImplementation::kFused, AttentionImplementation::kComposed}) {
      const bool composed = implementation == AttentionImplementation::kComposed;
      const StepCase step = make(implementation);
      const std::string own_name = StrCat(name, composed ? kComposedSuffix : "");
      cases.push_back({.name = own_name,
                       .goal = composed ? "" : goal,
                       .run = [own_name, step](const BenchSettings& s) { return MeasureStep(own_name, step, s); },
                       .bfloat16_goal = composed ? "" : bfloat16_goal});
    }
  };
  add("step-multihead-8", "2.3 s", "", [](AttentionImplementation how) { return T5Step("multihead", 8, how); });
  add("step-talking-16", "2.7 s", "x1.6", [](AttentionImplementation how) { return T5Step("talking", 16, how); });
  for (const int64_t n : {128, 512}) {
    const std::string length = n == 128 ? "" : StrCat("-", n);
    const auto bert = [n](const char* kind, bool albert) {
      return [n, kind, albert](AttentionImplementation how) { return BertStep(kind, n, albert, how); };
    };
    add(StrCat("step-bert-12", length), "75/70", "", bert("multihead", false));
    add(StrCat("step-bert-talking-12", length), "75/70", "", bert("talking", false));
    add(StrCat("step-albert-12", length), "75/70", "", bert("multihead", true));
  }
  add("step-finetune-128", "70 %", "", FinetuningStep);
  return cases;
}

std::vector<BenchCase> SmallBenchCases() {
  struct Small {
    SmallSizes sizes;
    const char* goal = "";  // of multi-head attention
    const char* bfloat16_goal = "";
  };
  const std::vector<Small> all = {
      {{.d_model = 16, .layers = 1, .heads = 4, .n = 16, .batch = 1}},
      {{.d_model = 32, .layers = 2, .heads = 4, .n = 32, .batch = 4}},
      {{.d_model = 64, .layers = 2, .heads = 4, .n = 64, .batch = 8}},
      {{.d_model = 128, .layers = 4, .heads = 4, .n = 64, .batch = 12}, "75 %", "x1.3"},
      {{.d_model = 256, .layers = 6, .heads = 4, .n = 128, .batch = 16}},
      {{.d_model = 384, .layers = 6, .heads = 6, .n = 256, .batch = 16}, "87 %", "x1.7"},
  };
  std::vector<BenchCase> cases;
  for (const auto& [sizes, goal, bfloat16_goal] : all) {
    for (const char* kind : {"multihead", "talking"}) {
      const std::string name = StrCat("small-", sizes.d_model, "-", kind);
      const bool has_goal = kind == std::string("multihead");
      // On one thread, then on all.
      const auto run = [name, step = LettersStep(sizes, kind)](const BenchSettings& settings) {
        std::vector<BenchResult> results;
        for (const int threads : std::set<int>{1, NumThreads()}) {
          const ThreadsScope scope(threads);
          for (BenchResult& result : MeasureStep(name, step, settings)) results.push_back(std::move(result));
        }
        return results;
      };
      cases.push_back(
          {.name = name, .goal = has_goal ? goal : "", .run = run, .bfloat16_goal = has_goal ? bfloat16_goal : ""});
    }
  }
  return cases;
}

}  // namespace crosstalk
