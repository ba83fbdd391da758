// A run on tasks that begins with another's weights.
#include "crosstalk/models/training/finetuning.h"

#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/models/training/task_results.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/messages.h"
#include "tests/support/task_cases.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::finetuning_test {

using testing::Contains;
TrainingSummary Train(const TrainingConfig& config, const std::string& folder,
                      ResumeOptions::From from = ResumeOptions::From::kNothing, TrainingObserver observer = {}) {
  return TrainingRun(ResolvedConfig(config), folder, {.from = from, .path = ""}, std::move(observer)).Train();
}

class FinetuningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string train = "sentence\tlabel\n", dev = train, test = "index\tsentence\n";
    for (int i = 0; i < 12; ++i)
      train += std::string(i % 2 == 0 ? "good" : "bad") + " film\t" + (i % 2 == 0 ? "1\n" : "0\n");
    for (int i = 0; i < 5; ++i)
      dev += std::string(i % 2 == 0 ? "good" : "bad") + " play\t" + (i % 2 == 0 ? "1\n" : "0\n");
    for (int i = 0; i < 3; ++i) test += std::to_string(i) + "\tgood book\n";
    WriteTaskFile(dir_ / "data", "SST-2/train.tsv", train);
    WriteTaskFile(dir_ / "data", "SST-2/dev.tsv", dev);
    WriteTaskFile(dir_ / "data", "SST-2/test.tsv", test);
  }

  TrainingConfig Pretraining(const std::string& model) const {
    TrainingConfig config = TinyConfigOf(model);
    config.objective.input_length = 32;
    config.optimization = {};  // the model's own
    config.optimization.batch = 4;
    config.optimization.steps = 3;
    config.run.checkpoint_every = 0;
    return config;
  }
  // Trains the origin; the configuration of a run of `steps` on the task.
  TrainingConfig Config(const std::string& model, OptimizerStart start = OptimizerStart::kFresh, int64_t steps = 4) {
    const std::string origin = dir_ / model;
    if (!std::filesystem::exists(origin)) Train(Pretraining(model), origin);
    FinetuningLength length;
    Trained outline = LoadOrigin(origin, TrainedParts::kTokenizer);
    outline.has_optimizer_state = start == OptimizerStart::kCarried;
    TrainingConfig config = FinetuningConfig(outline, "sst-2", &length);
    config.objective.task_data = dir_ / "data";
    config.optimization.init_from = origin;
    config.objective.input_length = 24;
    config.optimization.steps = steps;
    config.run.eval_every = 2;
    config.optimization.batch = 4;
    SetSteps(
        length, [] { return 12; }, &config);
    return config;
  }
  std::string Model(const std::string& run) const { return ReadFile(dir_ / (run + "/model.safetensors")); }

  TempDir dir_;
};

TEST_F(FinetuningTest, PublishedSettingsAreTheDefaults) {
  FinetuningLength length;
  const TrainingConfig t5 = Config("t5", OptimizerStart::kCarried);
  EXPECT_EQ(*t5.objective.name, "text-to-text");
  EXPECT_EQ(t5.optimization.learning_rate, 1e-3);
  EXPECT_EQ(t5.optimization.schedule, ScheduleKind::kConstant);
  EXPECT_EQ(t5.model.dropout_rate, 0.1);
  EXPECT_EQ(t5.optimization.frozen, "embedding");
  EXPECT_EQ(t5.optimization.optimizer_start, OptimizerStart::kCarried);
  EXPECT_TRUE(LoadOrigin(dir_ / "t5", TrainedParts::kTokenizer).has_optimizer_state);
  EXPECT_EQ(Config("t5").optimization.optimizer_start, OptimizerStart::kFresh);
  const TrainingConfig bert = Config("bert");
  EXPECT_EQ(*bert.objective.name, "task-head");
  EXPECT_EQ(bert.optimization.optimizer, OptimizerKind::kAdamW);
  EXPECT_EQ(bert.optimization.learning_rate, 3e-5);
  EXPECT_EQ(bert.optimization.warmup, 1);
  FinetuningConfig(LoadOrigin(dir_ / "bert", TrainedParts::kTokenizer), "sst-2", &length);
  EXPECT_EQ(length.epochs, 3);
  Config("albert");
  FinetuningConfig(LoadOrigin(dir_ / "albert", TrainedParts::kTokenizer), "sst-2", &length);
  EXPECT_EQ(length.steps, 20935);
  const TrainingConfig lm = Config("lm");
  EXPECT_EQ(*lm.objective.name, "prompt-completion");
  EXPECT_EQ(lm.optimization.optimizer, OptimizerKind::kAdamW);
  EXPECT_EQ(lm.optimization.learning_rate, 6.25e-5);
  EXPECT_EQ(lm.optimization.frozen, "");
  EXPECT_EQ(lm.model.dropout_rate, 0.1);  // the origin's
}

// There are 100 examples, and 8 in a step. Steps that are known need no examples; a warm-up that is a share leaves a
// step for the rest.
TEST_F(FinetuningTest, StepsAreCountedFromPassesOverTheExamples) {
  struct Case {
    int64_t given;
    FinetuningLength length;
    int64_t steps, warmup;
  };
  for (const Case& one : {Case{0, {.epochs = 1.5, .steps = 0, .warmup = 0.25}, 19, 5},
                          {19, {.epochs = 1.5, .steps = 0, .warmup = 0.25}, 19, 5},
                          {0, {.epochs = 0, .steps = 800, .warmup = 0.25}, 800, 200},
                          {1, {.epochs = 3, .steps = 0, .warmup = 0.1}, 1, 0},
                          {2, {.epochs = 3, .steps = 0, .warmup = 0.1}, 2, 1},
                          {4, {.epochs = 3, .steps = 0, .warmup = 0.1}, 4, 1}}) {
    TrainingConfig config;
    config.optimization.steps = one.given;
    config.optimization.batch = 8;
    const auto count = [&]() -> int64_t {
      if (one.given > 0 || one.length.steps > 0) throw std::logic_error("counted");
      return 100;
    };
    SetSteps(one.length, count, &config);
    EXPECT_EQ(config.optimization.steps, one.steps) << one.given;
    EXPECT_EQ(config.optimization.warmup, one.warmup) << one.given;
  }
}

// Predictions, scores, heads.
TEST_F(FinetuningTest, ARunLeavesItsAnswersAndTheirScores) {
  for (const std::string model : {"t5", "lm", "bert", "albert"}) {
    const TrainingConfig config = Config(model);
    const bool has_heads = model == "bert" || model == "albert";
    std::string messages;
    TrainingObserver observer;
    observer.message = [&](const std::string& message) { messages += message + "\n"; };
    const TrainingSummary summary = Train(config, dir_ / (model + "-run"), ResumeOptions::From::kNothing, observer);
    EXPECT_EQ(summary.end, TrainingSummary::End::kFinished);
    ASSERT_TRUE(summary.last_evaluation);
    EXPECT_EQ(summary.last_evaluation->result.metrics[0].name, "score");
    EXPECT_EQ(summary.last_evaluation->result.examples, 5);
    EXPECT_EQ(Contains(messages, "heads with initial values: classification"), has_heads) << messages;
    EXPECT_EQ(Contains(messages, "heads left out: masked_lm, sentence"), has_heads) << messages;

    const std::string run = dir_ / (model + "-run");
    const TaskType& task = FindTask("sst-2");
    const std::vector<TaskRow> rows = ReadTask("sst-2", dir_ / "data/SST-2/dev.tsv", TaskSplit::kDev);
    const std::vector<TaskPrediction> predictions =
        task.read_predictions(task, run + "/predictions/dev/SST-2.tsv", rows);
    const Json scores = ReadJsonFile(run + "/scores.json");
    EXPECT_EQ(scores.At("tasks").At("sst-2").At("accuracy").AsDouble(), task.score(task, rows, predictions)[0].value);
    EXPECT_EQ(scores.At("tasks").At("sst-2").At("constant_guess").At("accuracy").AsDouble(), 0.6);
    EXPECT_EQ(scores.At("score").AsDouble(), scores.At("tasks").At("sst-2").At("score").AsDouble());
    const std::string test = ReadFile(run + "/predictions/test/SST-2.tsv");
    EXPECT_EQ(std::count(test.begin(), test.end(), '\n'), 4) << test;
    if (model != "albert") continue;
    WriteTaskFile(dir_ / "data", "SST-2/dev.tsv", "sentence\tlabel\nother film\t1\n");
    testing::ExpectError([&] { Train(config, run, ResumeOptions::From::kNewest); }, ErrorKind::kData, {"has changed"});
  }
}

// "good" is positive, whatever it is said of. A run that was interrupted, on other threads, has the same bits.
TEST_F(FinetuningTest, ALanguageModelLearnsToAnswerWhereverItIsInterrupted) {
  const auto rows = [](int from, int to) {
    std::string text = "sentence\tlabel\n";
    for (int i = from; i < to; ++i) {
      text += i % 2 == 0 ? "good " : "bad ";
      for (const int place : {i / 2, i / 4, i / 16}) text += "aeklmnor"[place % 8];
      text += i % 2 == 0 ? "\t1\n" : "\t0\n";
    }
    return text;
  };
  WriteTaskFile(dir_ / "words", "SST-2/train.tsv", rows(0, 200));
  WriteTaskFile(dir_ / "words", "SST-2/dev.tsv", rows(200, 240));
  TrainingConfig origin = Pretraining("lm");
  origin.model.d_model = 32;
  origin.model.d_ff = 64;
  origin.model.attention.heads = 4;
  origin.model.layers = 2;
  origin.model.dropout_rate = 0;
  Train(origin, dir_ / "lm");
  TrainingConfig config = Config("lm", OptimizerStart::kFresh, 100);
  config.objective.task_data = dir_ / "words";
  config.objective.input_length = 32;
  config.objective.target_length = 9;
  config.optimization.learning_rate = 0.02;
  config.optimization.batch = 16;
  config.run.eval_every = 50;
  config.run.checkpoint_every = 50;
  const TrainingSummary summary = Train(config, dir_ / "whole");
  EXPECT_EQ(summary.last_evaluation->result.metrics[0].value, 1);
  SetNumThreads(3);
  int steps = 0;
  TrainingObserver observer;
  observer.stop = [&] { return ++steps > 60; };
  EXPECT_EQ(Train(config, dir_ / "cut", ResumeOptions::From::kNothing, observer).end, TrainingSummary::End::kStopped);
  SetNumThreads(2);
  Train(config, dir_ / "cut", ResumeOptions::From::kNewest);
  EXPECT_TRUE(Model("cut") == Model("whole"));
  const Trained trained = OpenRun(dir_ / "cut");
  const std::unique_ptr<TextWriter> writer = trained.model->MakeWriter(trained.tokenizer);
  std::string answer;
  WriteText(*trained.model, *writer, "sst2 sentence: good area", writer->Defaults(""),
            [&](std::string_view piece, Author) { answer += piece; });
  EXPECT_EQ(answer, "positive");
}

TEST_F(FinetuningTest, AHeadThatIsTakenOverIsNamed) {
  TrainingConfig config = Config("bert");
  std::string messages;
  TrainingObserver observer;
  observer.message = [&](const std::string& message) { messages += message + "\n"; };
  Train(config, dir_ / "first", ResumeOptions::From::kNothing, observer);
  EXPECT_TRUE(Contains(messages, "heads taken over: pooler\n")) << messages;
  config.optimization.init_from = dir_ / "first";
  Train(config, dir_ / "second", ResumeOptions::From::kNothing, observer);
  EXPECT_TRUE(Contains(messages, "heads taken over: pooler, classification (from task sst-2)\n")) << messages;
}

TEST_F(FinetuningTest, RowsWithoutAnAnswerAreAnsweredAndNotMeasured) {
  const TrainingConfig config = Config("bert");
  Train(config, dir_ / "run");
  const Trained trained = OpenRun(dir_ / "run");
  const TaskType& task = FindTask("sst-2");
  std::vector<TaskRow> rows = ReadTask("sst-2", dir_ / "data/SST-2/dev.tsv", TaskSplit::kDev);
  rows[1].labelled = false;
  const auto answer = [&] {
    return AnswerTask(config, *trained.model, *trained.tokenizer, task, TaskSplit::kDev, rows);
  };
  TaskResult result = answer();
  ASSERT_EQ(result.predictions.size(), 5u);
  std::vector<TaskRow> labelled = rows;
  labelled.erase(labelled.begin() + 1);
  result.predictions.erase(result.predictions.begin() + 1);
  EXPECT_EQ(result.measures[0].value, task.score(task, labelled, result.predictions)[0].value);
  EXPECT_EQ(ConstantGuessOf(task, rows)[0].value, 0.75);
  for (TaskRow& row : rows) row.labelled = false;
  EXPECT_TRUE(answer().measures.empty());
  EXPECT_TRUE(ConstantGuessOf(task, rows).empty());
}

TEST_F(FinetuningTest, AStateThatIsCarriedOverChangesTheSteps) {
  Train(Config("t5", OptimizerStart::kFresh), dir_ / "fresh");
  Train(Config("t5", OptimizerStart::kCarried), dir_ / "carried");
  EXPECT_FALSE(Model("fresh") == Model("carried"));
  // Heads are parameters that the origin's optimizer does not know.
  TrainingConfig bert = Config("bert");
  bert.optimization.optimizer_start = OptimizerStart::kCarried;
  testing::ExpectError([&] { Train(bert, dir_ / "bert-carried"); }, ErrorKind::kUsage, {"classification"});
}

TEST_F(FinetuningTest, WhatDoesNotFitIsRefused) {
  const auto with = [&](void (*change)(TrainingConfig&)) {
    TrainingConfig config = Config("bert");
    change(config);
    return config;
  };
  testing::ExpectRefused<TrainingConfig>(
      {{"no file", with([](auto& c) { c.objective.tasks = "rte"; }), {"has no file of rte"}},
       {"two heads", with([](auto& c) { c.objective.tasks = "sst-2,sts-b"; }), {"one head"}},
       {"a text", with([](auto& c) { c.data.text = "data"; }), {"data"}},
       {"a tokenizer without text",
        with([](auto& c) {
          c.optimization.init_from = "";
          c.data.tokenizer = "sentencepiece", c.data.vocabulary = 500;
        }),
        {"is made from text"}}},
      [&](const TrainingConfig& config) { Train(config, dir_ / "run"); });
}

// Freezing, for every model of the registry: what is left to train has the gradients that it has in a whole model.

std::map<std::string, std::vector<float>> Gradients(const Model& model, const Batch& batch) {
  model.ZeroGrad();
  Backward(model.Loss(batch, {.z_loss = 1e-4}, {.phase = ForwardContext::Phase::kTraining, .seed = 3}).Scaled({}));
  std::map<std::string, std::vector<float>> gradients;
  for (const NamedParameter& parameter : model.Parameters()) {
    if (parameter.value.requires_grad()) gradients[parameter.name] = parameter.value.grad().ToVector<float>();
  }
  return gradients;
}

TEST(FrozenTest, OneParameterAloneHasTheGradientThatItHasAmongAll) {
  for (const std::string& name : ModelNames()) {
    for (const char* kind : {"talking", "dynamic", "bilinear"}) {
      for (const Activations activations : {Activations::kKeep, Activations::kRecompute}) {
        TrainingConfig config = TinyConfigOf(name);
        config.model.attention.kind = ParseName<AttentionKind>("attention", kind);
        const ResolvedConfig resolved(config);
        const TrainingData data = OpenTrainingData(*resolved);
        const Batch batch = MakeBatches(*resolved, data, {0})->Get(0, 0);
        const auto model = MakeModel(ConfigureModel(*resolved, VocabularyOf(*resolved, data.tokenizer.get())), 1);
        model->SetActivations(activations);
        const auto whole = Gradients(*model, batch);
        for (const auto& [parameter, gradient] : whole) {
          model->SetTrainable("", Module::Trainable::kNo);
          model->SetTrainable(parameter, Module::Trainable::kYes);
          const auto alone = Gradients(*model, batch);
          ASSERT_EQ(alone.size(), 1u) << parameter;
          EXPECT_TRUE(alone.at(parameter) == gradient) << name << ", " << kind << ", " << parameter;
        }
      }
    }
  }
}

TEST(FrozenTest, NamesAreChecked) {
  const auto freeze = [](const std::string& frozen) {
    TrainingConfig config = *TinyConfig();
    config.optimization.frozen = frozen;
    const ResolvedConfig resolved(config);
    const auto model = MakeModel(ConfigureModel(*resolved, {.size = 300, .tokens = {}}), 1);
    PrepareModel(config.optimization, *model);
  };
  EXPECT_NO_THROW(freeze("embedding,encoder.block_0,*.P_l"));
  testing::ExpectRefused<std::string>(
      {{"unknown",
        "embedding,encodr",
        {"frozen: there is no parameter \"encodr\", nor any under that path; did you mean \"encoder\"?; the model's "
         "parts are decoder, embedding, encoder"}},
       {"empty", "embedding,", {"frozen: \"embedding,\" has an empty name"}},
       {"all", "*coder*,embedding", {"names all parameters, which leaves nothing to train"}}},
      freeze);
}

}  // namespace crosstalk::finetuning_test
