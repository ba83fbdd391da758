// The cases of models: steps of training, and decoding.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/kernels/peak.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/step_cost.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"
#include "tools/cli/statistics.h"
#include "tools/lab/bench/bench.h"
#include "tools/lab/bench/measured_step.h"

namespace crosstalk {
namespace {

// Steps of the small models that people train on a CPU, with everything in them: the batch, forward, backward, clipping
// and the optimizer, as `crosstalk train` makes them.

// The model of `make train MODEL=name`.
TrainingConfig DefaultOf(const char* name) {
  TrainingConfig config;
  config.model.name = name;
  return config;
}

std::vector<BenchResult> MeasureTraining(const std::string& name, TrainingConfig config,
                                         const BenchSettings& settings) {
  config.optimization.batch = settings.batch.value_or(config.optimization.batch);
  config.objective.input_length = settings.n.value_or(config.objective.input_length);
  const ResolvedConfig resolved(config);
  const TrainingData data = OpenTrainingData(*resolved);
  std::map<Precision, std::unique_ptr<TrainingInMemory>> trainings;
  double tokens = 0;
  const auto run = [&] {
    std::unique_ptr<TrainingInMemory>& training = trainings[CurrentContext().precision];
    if (training == nullptr) {
      TrainingConfig own = *resolved;
      own.optimization.precision = CurrentContext().precision;
      training = std::make_unique<TrainingInMemory>(own, data);
    }
    const StepResult step = MeasureSteps(training->loop(), {})[0].result;
    tokens = static_cast<double>(step.tokens);
    return PassOf(step);
  };
  const auto measure_memory = [&](BenchResult& result) {
    result.extra_bytes = ExtraBytesOf([&] { run(); });
    result.step = BenchResult::Step();
  };
  const StepCost cost = EstimateStep(resolved, VocabularyOf(*resolved, data.tokenizer.get()));
  std::vector<BenchResult> results = MeasurePasses(name, settings, static_cast<double>(cost.forward_multiplications),
                                                   {.run = run, .measure_memory = measure_memory});
  SetStepTimes(tokens, &results);
  return results;
}

}  // namespace

std::vector<BenchCase> TrainingBenchCases() {
  std::vector<BenchCase> cases;
  for (const char* model : {"t5", "bert"}) {
    const std::string name = StrCat("train-", model);
    cases.push_back({.name = name,
                     .goal = "72 %",
                     .run = [=](const BenchSettings& s) { return MeasureTraining(name, DefaultOf(model), s); },
                     .bfloat16_goal = "x1.4"});
  }
  return cases;
}

// Decoding, a token of each row at a time, beside the time that reading weights and cache takes.
namespace {

constexpr int64_t kRead = 128;  // positions that have been read when the first token is written
constexpr int64_t kSteps = 64;  // tokens written

struct DecodeCase {
  int64_t vocabulary = 0;
  std::function<std::unique_ptr<Model>()> make_model;
};

AttentionConfig LayerOf(const char* kind, int64_t d_model) {
  return MakeAttentionConfig({.kind = ParseName<AttentionKind>("kind", kind), .heads = d_model / 64}, d_model);
}

// One encoder layer: what a step reads are the decoder's.
DecodeCase T5Of(const char* kind, int64_t d_model, int64_t layers) {
  ModelConfig config = BaseT5();
  config.vocabulary = 32128;
  config.d_model = d_model;
  config.d_ff = 4 * d_model;
  config.layers = 1;
  config.decoder_layers = layers;
  config.SetAttention(LayerOf(kind, d_model));
  return {config.vocabulary, [config] { return std::make_unique<T5>(config, 0); }};
}

DecodeCase LmOf(const char* kind, int64_t d_model, int64_t layers) {
  ModelConfig config;
  config.vocabulary = 1000;
  config.d_model = d_model;
  config.d_ff = 4 * d_model;
  config.layers = layers;
  config.context = 2048;
  config.SetAttention(LayerOf(kind, d_model));
  return {config.vocabulary, [config] { return std::make_unique<Lm>(config, 0); }};
}

// The bytes of the parameters that a step reads whole: not the encoder's, and not what the memory was projected with.
// The table of the embedding is the classifier's. In bfloat16 all that is large is rounded.
int64_t WeightBytes(const Model& model) {
  const size_t size = model.precision() == Precision::kBFloat16 ? sizeof(uint16_t) : sizeof(float);
  int64_t bytes = 0;
  for (const NamedParameter& parameter : model.Parameters()) {
    const auto has = [&](const char* part) { return parameter.name.find(part) != std::string::npos; };
    const bool of_memory = has("cross_attention.P_k") || has("cross_attention.P_v") || has("cross_attention.P_M");
    if (has("encoder.") || of_memory) continue;
    bytes += parameter.value.value().num_elements() * static_cast<int64_t>(size);
  }
  return bytes;
}

BenchResult MeasureDecode(const std::string& name, const Model& model, int64_t own_rows,
                          const BenchSettings& settings) {
  const std::unique_ptr<Decoder> decoder = model.MakeDecoder({});
  const int64_t rows = settings.batch.value_or(own_rows), n = settings.n.value_or(kRead);
  const int64_t steps = settings.repetitions.value_or(kSteps);
  const ContextScope no_grad = NoGrad();
  const ContextScope as_a_search(&OpContext::sum_order, SumOrder::kBatchInvariant);
  BenchResult result;
  result.name = NameIn(model.precision(), name);
  result.precision = model.precision();
  result.threads = NumThreads();
  result.simd_target = kernels::SimdTargetName();
  BenchResult::Decode decode = {.rows = rows, .weight_bytes = WeightBytes(model)};
  decode.gigabytes_per_second = kernels::MeasureReadGigabytes(NumThreads());
  const int64_t before = GetMemoryStats().live_bytes;
  decoder->Start(Tensor::Full({rows, n}, 5, DType::kInt32), Tensor::Full({rows, n}, 1, DType::kBool));
  const Tensor tokens = Tensor::Full({rows}, 7, DType::kInt32);
  decoder->Step(tokens);
  std::vector<double> seconds;
  for (int64_t step = 0; step < steps; ++step) {
    const double begin = WallSeconds();
    decoder->Step(tokens);
    seconds.push_back(WallSeconds() - begin);
    // Buffers have room for some positions more than they hold.
    if (step == steps / 2) decode.cache_bytes = GetMemoryStats().live_bytes - before;
  }
  decode.gigabytes_per_second = std::max(decode.gigabytes_per_second, kernels::MeasureReadGigabytes(NumThreads()));
  decode.step_ms = 1e3 * Median(seconds);
  decode.least_ms = 1e3 * *std::min_element(seconds.begin(), seconds.end());
  decode.tokens_per_second = static_cast<double>(rows) / Median(seconds);
  result.decode = decode;
  return result;
}

}  // namespace

std::vector<BenchCase> DecodeBenchCases() {
  std::vector<BenchCase> cases;
  const auto add = [&cases](const char* name, const DecodeCase& of, const std::vector<int64_t>& row_counts,
                            const char* goal = "1.5") {
    for (const int64_t rows : row_counts) {
      const std::string full = StrCat("decode-", name, "-", rows);
      const auto run = [=](const BenchSettings& settings) {
        std::vector<BenchResult> results;
        for (const Precision precision : settings.precisions) {
          const std::unique_ptr<Model> model = of.make_model();
          model->SetPrecision(precision);
          if (precision == Precision::kBFloat16) model->RoundWeights();
          results.push_back(MeasureDecode(full, *model, rows, settings));
        }
        return results;
      };
      cases.push_back({.name = full, .goal = rows == 1 ? goal : "", .run = run});
    }
  };
  add("t5-768x12", T5Of("multihead", 768, 12), {1, 32});
  add("t5-talking-768x12", T5Of("talking", 768, 12), {1, 32});
  add("t5-dynamic-768x12", T5Of("dynamic", 768, 12), {1});
  add("t5-512x6", T5Of("multihead", 512, 6), {1, 32});
  add("lm-256x4", LmOf("talking", 256, 4), {1, 32});
  add("lm-128x4", LmOf("multihead", 128, 4), {1}, "1.2");
  return cases;
}

}  // namespace crosstalk
