// Whole attention layers: input projections, core and output projection, forward and backward; and their memory
// against n.
#include <algorithm>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/runtime/storage.h"
#include "tools/lab/bench/bench.h"

namespace crosstalk {
namespace {

constexpr int64_t kBatch = 4;
constexpr int64_t kN = 512;

int64_t Bytes(const Tensor& tensor) { return BytesOf(tensor.num_elements(), tensor.dtype()); }

// X[b, n, d] → Y[b, n, d] and, from a fixed dY, the gradients of X and of every parameter.
class LayerPass {
 public:
  LayerPass(const AttentionConfig& config, int64_t batch, int64_t n)
      : module_(config, Initializer(0).At("layer")),
        X_(RandomTensor({batch, n, config.d_X}, "bench.X"), Variable::RequiresGrad::kYes),
        dY_(RandomTensor({batch, n, config.d_Y}, "bench.dY")) {}

  PassSeconds Run() {
    ClearGradients();
    const double begin = WallSeconds();
    const Variable Y = module_.Forward(X_, X_, {}, {.phase = ForwardContext::Phase::kTraining}).Y;
    const double middle = WallSeconds();
    forward_peak_ = GetMemoryStats().peak_bytes;
    Backward(Y, dY_);
    return {.forward = middle - begin, .backward = WallSeconds() - middle};
  }

  // The extra bytes of one Run. Gradients come one by one, so that they are not all there at the peak: the peak of the
  // forward of whose outputs there is only Y, counts too.
  int64_t MeasureExtraBytes() {
    ClearGradients();
    ResetPeakMemory();
    const int64_t live = GetMemoryStats().live_bytes, Y_bytes = Bytes(dY_);
    Run();
    int64_t outputs = Y_bytes + Bytes(X_.value());  // Y and dX
    for (const NamedParameter& parameter : module_.Parameters()) outputs += Bytes(parameter.value.value());
    return std::max({int64_t{0}, forward_peak_ - live - Y_bytes, GetMemoryStats().peak_bytes - live - outputs});
  }

 private:
  void ClearGradients() {
    module_.ZeroGrad();
    X_.ZeroGrad();
  }

  AttentionModule module_;
  Variable X_;  // [b, n, d_X]
  Tensor dY_;   // [b, n, d_Y]
  int64_t forward_peak_ = 0;
};

using MeasureFunction =
    std::function<std::vector<BenchResult>(const std::string& name, const AttentionConfig&, const BenchSettings&)>;

struct Goals {
  std::string of_peak = {}, of_float = {};
};

void AddCase(std::string name, const Goals& goals, AttentionConfig config, AttentionImplementation implementation,
             const MeasureFunction& measure, std::vector<BenchCase>& cases) {
  config.implementation = implementation;
  if (implementation == AttentionImplementation::kComposed) name += kComposedSuffix;
  cases.push_back({.name = name,
                   .goal = goals.of_peak,
                   .run = [=](const BenchSettings& settings) { return measure(name, config, settings); },
                   .bfloat16_goal = goals.of_float});
}

}  // namespace

std::vector<BenchResult> MeasureLayer(const std::string& name, const AttentionConfig& config, int64_t batch, int64_t n,
                                      const BenchSettings& settings) {
  LayerPass pass(config, batch, n);
  const double multiplications = static_cast<double>(CostOf(config, n, n).multiplications) * static_cast<double>(batch);
  return MeasurePasses(name, settings, multiplications,
                       {.run = [&] { return pass.Run(); },
                        .measure_memory = [&](BenchResult& result) { result.extra_bytes = pass.MeasureExtraBytes(); }});
}

std::vector<BenchCase> LayerBenchCases() {
  struct Layer {
    const char* name;
    Goals goals;
    AttentionOptions options;
  };
  const std::vector<Layer> layers = {
      {"multihead-12", {"90/85", "x1.7"}, {.kind = AttentionKind::kMultihead, .heads = 12}},
      {"multihead-24", {}, {.kind = AttentionKind::kMultihead, .heads = 24}},
      {"talking-12", {"90/84", "x1.7"}, {.kind = AttentionKind::kTalking, .heads = 12}},
      {"talking-24", {"88/76", "x1.6"}, {.kind = AttentionKind::kTalking, .heads = 24}},
      {"talking-48", {"86/70", "x1.5"}, {.kind = AttentionKind::kTalking, .heads = 48}},
      {"talking-6-24-6", {}, {.kind = AttentionKind::kTalking, .heads = 24, .key_heads = 6, .value_heads = 6}},
      {"dynamic-12", {"86/74", "x1.5"}, {.kind = AttentionKind::kDynamic, .heads = 12}},
      {"dynamic-24", {}, {.kind = AttentionKind::kDynamic, .heads = 24}},
      {"bilinear-12", {"88/84", "x1.75"}, {.kind = AttentionKind::kBilinear, .heads = 12}},
      {"dcmha-12", {}, {.kind = AttentionKind::kDcmha, .heads = 12}},
      {"diff-v1-24", {}, {.kind = AttentionKind::kDiffV1, .heads = 24}},
      {"diff-v2-24", {}, {.kind = AttentionKind::kDiffV2, .heads = 24, .key_size = 32, .value_size = 32}},
      {"mta-12", {}, {.kind = AttentionKind::kMta, .heads = 12}},
  };
  const MeasureFunction measure = [](const std::string& name, const AttentionConfig& config,
                                     const BenchSettings& settings) {
    return MeasureLayer(name, config, settings.batch.value_or(kBatch), settings.n.value_or(kN), settings);
  };
  std::vector<BenchCase> cases;
  for (const Layer& layer : layers) {
    const AttentionConfig config = MakeAttentionConfig(layer.options, kBenchWidth);
    AddCase(layer.name, layer.goals, config, AttentionImplementation::kFused, measure, cases);
    AddCase(layer.name, {}, config, AttentionImplementation::kComposed, measure, cases);
  }
  return cases;
}

std::vector<BenchCase> MemoryBenchCases() {
  constexpr int64_t kLongestComposed = 2048;
  const AttentionConfig config = MakeAttentionConfig({.kind = AttentionKind::kTalking, .heads = 12}, kBenchWidth);
  std::vector<BenchCase> cases;
  for (const int64_t n : {512, 1024, 2048, 4096, 8192}) {
    const MeasureFunction measure = [n](const std::string& name, const AttentionConfig& of,
                                        const BenchSettings& settings) {
      return MeasureLayer(name, of, settings.batch.value_or(1), n, settings);
    };
    const std::string name = StrCat("memory-", n);
    AddCase(name, {}, config, AttentionImplementation::kFused, measure, cases);
    if (n <= kLongestComposed) AddCase(name, {}, config, AttentionImplementation::kComposed, measure, cases);
  }
  return cases;
}

}  // namespace crosstalk
