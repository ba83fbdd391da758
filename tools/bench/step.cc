// Whole training steps of a T5: forward, backward and Adafactor's update, on token ids drawn at random.
#include <malloc.h>

#include <algorithm>

#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/scopes.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/nn/optim/clipping.h"
#include "crosstalk/nn/optim/schedule.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/shapes_only.h"
#include "crosstalk/runtime/storage.h"
#include "tools/bench/bench.h"
#include "tools/output.h"

namespace crosstalk {
namespace {

constexpr int64_t kBatch = 8;
constexpr int64_t kInputs = 512;
constexpr int64_t kTargets = 114;  // of 512 inputs: what span corruption makes of them

T5Config StepConfig(const std::string& kind, int64_t heads, AttentionImplementation implementation) {
  T5Config config;
  config.vocabulary = 32128;
  config.d_model = 512;
  config.d_ff = 2048;
  config.encoder_layers = config.decoder_layers = 6;
  AttentionConfig attention =
      MakeAttentionConfig({.kind = ParseName<AttentionKind>("kind", kind), .heads = heads}, config.d_model);
  attention.implementation = implementation;
  config.SetAttention(attention);
  return config;
}

// ids int32[rows, length], none of them padding.
Tensor RandomIds(int64_t rows, int64_t length, int64_t vocabulary, const char* purpose, int64_t step) {
  Tensor ids = Tensor::Empty({rows, length}, DType::kInt32);
  const RandomKey key{.seed = 0, .stream = StreamId(purpose), .step = static_cast<uint32_t>(step)};
  for (int64_t i = 0; i < rows * length; ++i) {
    ids.data<int32_t>()[i] =
        static_cast<int32_t>(1 + UniformInt(key, static_cast<uint64_t>(i), static_cast<uint64_t>(vocabulary - 1)));
  }
  return ids;
}

class StepPass {
 public:
  StepPass(const T5Config& config, int64_t batch, int64_t n, int64_t m)
      : model_(config, 0), parameters_(model_.Parameters()), optimizer_(parameters_), batch_(batch), n_(n), m_(m) {}

  PassSeconds Run() {
    const int64_t step = optimizer_.step(), vocabulary = model_.config().vocabulary;
    const Tensor inputs = RandomIds(batch_, n_, vocabulary, "bench.inputs", step);
    const Tensor targets = RandomIds(batch_, m_, vocabulary, "bench.targets", step);
    const double begin = WallSeconds();
    const ForwardContext context{.phase = ForwardContext::Phase::kTraining, .step = static_cast<uint32_t>(step)};
    Batch ids;
    ids.Add("inputs", inputs).Add("targets", targets);
    const LossResult loss = model_.Loss(ids, {.z_loss = 1e-4}, context);
    const double middle = WallSeconds();
    Backward(Scale(loss.sum, 1.0 / static_cast<double>(targets.num_elements())));
    const double end = WallSeconds();
    optimizer_.Step(LearningRate({}, step), ClipScale(GradientNorm(parameters_), 0));
    model_.ZeroGrad();
    return {.forward = middle - begin, .backward = end - middle, .whole = WallSeconds() - begin};
  }

 private:
  T5 model_;
  std::vector<NamedParameter> parameters_;
  Adafactor optimizer_;
  int64_t batch_, n_, m_;
};

// Makes PeakResidentBytes() count from here on. What earlier cases freed goes back to the system first.
void ResetPeakResidentBytes(const std::string& name) {
  ReleaseCachedMemory();
  malloc_trim(0);
  try {
    FileWriter("/proc/self/clear_refs").Write("5\n");
  } catch (const Error&) {
    PrintMessage("bench: ", name, ": the system cannot count anew, so peak_resident_bytes is that of all cases so far");
  }
}

int64_t ForwardMultiplications(const T5Config& config, int64_t batch, int64_t n, int64_t m) {
  const ShapesOnlyScope scope;
  const NoGradScope no_grad;
  const Tensor inputs = Tensor::Zeros({batch, n}, DType::kInt32), targets = Tensor::Zeros({batch, m}, DType::kInt32);
  T5(config, 0).Loss(inputs, targets, {}, ForwardContext());
  return CheckedMultiplications(scope.Multiplications());
}

BenchResult MeasureStep(const std::string& name, const T5Config& config, const BenchSettings& settings) {
  const int64_t batch = settings.batch.value_or(kBatch), n = settings.n.value_or(kInputs);
  const int64_t m = std::max<int64_t>(1, n * kTargets / kInputs);
  ResetPeakResidentBytes(name);
  StepPass pass(config, batch, n, m);
  ResetPeakMemory();
  const int64_t live = GetMemoryStats().live_bytes;
  double seconds = 0;
  const auto multiplications = static_cast<double>(ForwardMultiplications(config, batch, n, m));
  BenchResult result = MeasurePasses(
      name, settings, multiplications, [&] { return pass.Run(); }, &seconds);
  result.extra_bytes = GetMemoryStats().peak_bytes - live;
  result.step = BenchResult::Step{.seconds = seconds,
                                  .tokens_per_second = static_cast<double>(batch * (n + m)) / seconds,
                                  .peak_resident_bytes = PeakResidentBytes()};
  return result;
}

}  // namespace

std::vector<BenchCase> StepBenchCases() {
  struct Model {
    const char* kind;
    int64_t heads;
    const char* goal;
  };
  std::vector<BenchCase> cases;
  for (const Model& model : {Model{"multihead", 8, "2.3 s"}, Model{"talking", 16, "2.7 s"}}) {
    for (const AttentionImplementation implementation :
         {AttentionImplementation::kFused, AttentionImplementation::kComposed}) {
      const bool composed = implementation == AttentionImplementation::kComposed;
      const T5Config config = StepConfig(model.kind, model.heads, implementation);
      const std::string name = StrCat("step-", model.kind, "-", model.heads, composed ? kComposedSuffix : "");
      cases.push_back({name, composed ? "" : model.goal,
                       [=](const BenchSettings& settings) { return MeasureStep(name, config, settings); }});
    }
  }
  return cases;
}

}  // namespace crosstalk
