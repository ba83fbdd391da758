// 5. What a wrong cache costs. The dynamic projections of talking-heads attention belong to positions: R_Ml[m, h_k, h]
// and R_Mw[m, h, h_v] are computed of memory position m, and a decoder that writes a token at a time has to keep them
// beside K and V. The authors' published code recomputes them from the token that is being written, for all positions,
// so that what it decodes with is not what it was trained with. This program lets a T5 decode both ways: a pretrained
// one the held-out text, a finetuned one the held-out rows of its tasks.
//
//   build/examples/published_defect RUN [DATA | TASK_DATA]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/objectives/text_to_text.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/op_context.h"

using namespace crosstalk;  // an example may

namespace {

struct LogLoss {
  double nats = 0;
  int64_t tokens = 0;
  double mean() const { return nats / static_cast<double>(tokens); }
};

// -ln p of the tokens that stand in targets[b, m], each given those in front of it, by the decoder's steps.
void AddLoss(const Model& model, const Tensor& inputs, const Tensor& targets, CachedMixings mixings, LogLoss& loss) {
  const std::unique_ptr<Decoder> decoder = model.MakeDecoder({mixings});
  const int32_t pad = decoder->config().tokens.pad;
  const int64_t rows = inputs.size(0);
  Tensor mask = Tensor::Full(inputs.shape(), 0, DType::kBool);
  for (int64_t i = 0; i < inputs.num_elements(); ++i) mask.data<bool>()[i] = inputs.data<int32_t>()[i] != pad;
  Tensor logits = decoder->Start(inputs, mask);
  for (int64_t step = 0; step < targets.size(1); ++step) {
    Tensor tokens = Tensor::Full({rows}, pad, DType::kInt32);
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t token = targets.data<int32_t>()[row * targets.size(1) + step];
      tokens.data<int32_t>()[row] = token;
      if (token == pad) continue;
      const float* scores = logits.data<float>() + row * decoder->config().vocabulary;
      const float most = *std::max_element(scores, scores + decoder->config().vocabulary);
      double sum = 0;
      for (int64_t v = 0; v < decoder->config().vocabulary; ++v) sum += std::exp(static_cast<double>(scores[v]) - most);
      loss.nats += most + std::log(sum) - scores[token];
      ++loss.tokens;
    }
    if (step + 1 < targets.size(1)) logits = decoder->Step(tokens);
  }
}

void CompareOnText(const Trained& trained) {
  const TrainingData data = OpenTrainingData(trained.config, trained.tokenizer);
  const auto batches = MakeEvaluation(trained.config, data.corpus.validation, trained.tokenizer);
  LogLoss correct, published;
  for (int64_t i = 0; i < batches->num_batches(); ++i) {
    const Batch batch = batches->Get(i);
    AddLoss(*trained.model, batch.Get("inputs"), batch.Get("targets"), CachedMixings::kOfEachPosition, correct);
    AddLoss(*trained.model, batch.Get("inputs"), batch.Get("targets"), CachedMixings::kOfCurrentToken, published);
  }
  std::printf("held-out ln(PPL) of %lld tokens: correct %.4f, published %.4f\n", static_cast<long long>(correct.tokens),
              correct.mean(), published.mean());
}

void CompareOnTasks(const Trained& trained) {
  const TaskSet tasks = OpenTasks(trained.config);
  std::printf("%-12s %10s %10s %16s\n", "task", "correct", "published", "answers changed");
  for (const TaskData& task : tasks.tasks) {
    if (task.dev == nullptr || task.dev->empty() || !task.dev->front().labelled) continue;
    const auto answer = [&](CachedMixings mixings) {
      return AnswerInText(trained.config.objective, *trained.model, *trained.tokenizer, *task.type, *task.dev,
                          {mixings}, {});
    };
    const auto correct = answer(CachedMixings::kOfEachPosition);
    const auto published = answer(CachedMixings::kOfCurrentToken);
    int changed = 0;
    for (size_t i = 0; i < correct.size(); ++i) changed += correct[i].answer != published[i].answer;
    const auto score = [&](const std::vector<TaskPrediction>& predictions) {
      return 100 * MainScore(*task.type, task.type->score(*task.type, *task.dev, predictions));
    };
    std::printf("%-12s %10.2f %10.2f %8d of %zu\n", task.type->name, score(correct), score(published), changed,
                correct.size());
  }
}

// Only what belongs to memory positions can be taken of another one.
bool HasDynamicMemory(const Model& model) {
  const std::vector<AttentionPlace> places = model.AttentionPlaces();
  return std::any_of(places.begin(), places.end(),
                     [](const AttentionPlace& place) { return place.config.mixing.P_Ml || place.config.mixing.P_Mw; });
}

void Compare(const std::string& run, const std::string& data) {
  Trained trained = OpenRun(run, {.which = WhichCheckpoint::kBest});
  if (trained.config.model.name != "t5" || !HasDynamicMemory(*trained.model)) {
    Fail(ErrorKind::kUsage, run,
         ": is no T5 that has dynamic projections P_Ml and P_Mw, which the defect is about: give one that ",
         "crosstalk train --model t5 --attention dynamic has trained");
  }
  const bool of_tasks = ObjectiveOf(trained.config).learns_tasks();
  if (!data.empty()) (of_tasks ? trained.config.objective.task_data : trained.config.data.text) = data;
  const ContextScope no_grad = NoGrad();
  if (of_tasks) {
    CompareOnTasks(trained);
  } else {
    CompareOnText(trained);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: published_defect RUN [DATA | TASK_DATA]: a T5 with dynamic projections\n", stderr);
    return 2;
  }
  try {
    Compare(argv[1], argc > 2 ? argv[2] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
