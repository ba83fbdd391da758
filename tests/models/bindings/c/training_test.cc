// A run that is driven through the C interface is the run: its bits, its checkpoints, its errors. And its model.
#include <unistd.h>

#include <atomic>
#include <regex>
#include <thread>

#include "crosstalk/models/training/run.h"
#include "crosstalk/runtime/atomic_file.h"
#include "tests/models/bindings/c/owned.h"
#include "tests/support/decimal_comma.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::training_test {

constexpr char kTiny[] = R"({"model": "lm", "tokenizer": "bytes", "d_model": 16, "heads": 2, "d_ff": 24, "layers": 1,
  "input_length": 16, "batch": 4, "steps": 4, "eval_every": 2, "eval_batches": 1, "checkpoint_every": 4})";

Owned<ct_training> Open(const std::string& folder, const char* configuration = kTiny, const char* resume = nullptr,
                        const ct_observer* observer = nullptr) {
  Owned<ct_training> training;
  EXPECT_CT(ct_training_open(folder.c_str(), configuration, resume, observer, &training));
  return training;
}

int Steps(ct_training* training, int most = 100) {
  int steps = 0;
  for (int more = 1; steps < most; ++steps) {
    EXPECT_CT(ct_training_step(training, &more));
    if (!more) break;
  }
  return steps;
}

// Its bits, saved and gone on with or not, are those of any run: tests/bits.
TEST(CTrainingTest, ARunIsMadeOfStepsAndGoesOnWhereItWasSaved) {
  const TempDir folder;
  ct_training* taken = nullptr;
  const auto refused = [&](const char* configuration, const char* resume) {
    return ct_training_open((folder / "run").c_str(), configuration, resume, nullptr, &taken) == CT_USAGE;
  };
  {
    const Owned<ct_training> cut = Open(folder / "run");
    EXPECT_EQ(Steps(cut, 3), 3);
    ASSERT_CT(ct_training_save(cut));
  }
  EXPECT_TRUE(refused(kTiny, nullptr)) << "it is there";
  const Owned<ct_training> training = Open(folder / "run", "{}", "auto");
  EXPECT_TRUE(refused("{}", "auto")) << "it is locked";
  EXPECT_EQ(Steps(training), 1);
  EXPECT_EQ(Steps(training), 0) << "the end stays the end";
  const char* json = nullptr;
  ASSERT_CT(ct_training_metrics(training, &json));
  const Json metrics = ParseJson(json, "metrics");
  EXPECT_EQ(metrics.At("step"), Json(4));
  EXPECT_EQ(metrics.At("evaluation").At("step"), Json(4));
  EXPECT_TRUE(metrics.At("loss").type() == Json::Type::kDouble);
}

struct Told {
  int messages = 0, evaluations = 0, asked = 0, stop_at = 1 << 30;
  ct_training* training = nullptr;
  ct_status from_callback = CT_OK;
};

ct_observer ObserverOf(Told* told) {
  return {told, [](void* context, const char*) { ++static_cast<Told*>(context)->messages; },
          [](void* context, const char* json) {
            Told& self = *static_cast<Told*>(context);
            ++self.evaluations;
            EXPECT_NE(std::string(json).find("\"event\": \"eval\""), std::string::npos) << json;
            int more = 0;
            self.from_callback = ct_training_step(self.training, &more);
          },
          [](void* context) {
            Told& self = *static_cast<Told*>(context);
            return static_cast<int>(++self.asked > self.stop_at);
          }};
}

TEST(CTrainingTest, TheObserverIsToldACallFromItIsAnErrorAndAStopSaves) {
  const TempDir folder;
  for (const bool stops : {false, true}) {
    Told told;
    const ct_observer observer = ObserverOf(&told);
    const std::string run = folder / (stops ? "stopped" : "whole");
    const Owned<ct_training> training = Open(run, kTiny, nullptr, &observer);
    told.training = training;
    EXPECT_EQ(Steps(training, stops ? 1 : 100), stops ? 1 : 4);
    if (!stops) {
      EXPECT_EQ(told.evaluations, 2);
      EXPECT_EQ(told.from_callback, CT_USAGE);
      EXPECT_GE(told.asked, 4);
      continue;
    }
    told.stop_at = 0;
    int more = 1;
    EXPECT_EQ(ct_training_step(training, &more), CT_STOPPED);
    EXPECT_EQ(more, 1);
    EXPECT_TRUE(CheckpointStore(RunFolder(run).CheckpointDirectory()).FindNewestGood().checkpoint);
  }
}

TEST(CTrainingTest, AConfigurationThatDoesNotFitNamesItsField) {
  const TempDir folder;
  ct_training* training = nullptr;
  const std::string run = folder / "run";
  std::vector<std::pair<std::string, std::string>> refused = {{R"({"d_modell": 16})", "d_modell"},
                                                              {R"({"steps": 0})", "steps"},
                                                              {R"({"shards": 2, "accumulate": 2})", "shards"}};
  for (const std::string field : {"data", "validation", "tokenizer", "init_from", "task_data"}) {
    refused.emplace_back(R"({")" + field + R"(": "one\u0000two"})", field);
  }
  for (const auto& [configuration, field] : refused) {
    EXPECT_EQ(ct_training_open(run.c_str(), configuration.c_str(), nullptr, nullptr, &training), CT_USAGE);
    EXPECT_EQ(ct_last_error_field(), field) << configuration;
  }
  EXPECT_EQ(ct_training_open(run.c_str(), R"({"data": "no/such/file.txt"})", nullptr, nullptr, &training), CT_DATA);
  EXPECT_EQ(ct_training_open("", nullptr, nullptr, nullptr, &training), CT_USAGE);
  EXPECT_EQ(KindOf(run), PathKind::kNothing);
}

// As in a host that has called setlocale(LC_ALL, "") and std::locale::global(std::locale("de_DE.UTF-8")).
TEST(CTrainingTest, AHostWithADecimalCommaReadsAndWritesTheSame) {
  const TempDir folder;
  std::string configuration = kTiny;
  configuration.replace(configuration.find("bytes"), 5, "sentencepiece");
  configuration.insert(1, R"("learning_rate": 0.123, "vocabulary": 1100, "dropout": 0.25, "tensorboard": true, )");
  const auto train = [&](const std::string& run) {
    std::string all;
    const ct_observer observer = {&all, nullptr,
                                  [](void* to, const char* json) { *static_cast<std::string*>(to) += json; }, nullptr};
    {
      const Owned<ct_training> cut = Open(run, configuration.c_str(), nullptr, &observer);
      EXPECT_EQ(Steps(cut, 3), 3);
      EXPECT_CT(ct_training_save(cut));
    }
    const Owned<ct_training> training = Open(run, "{\"steps\": 5}", "auto", &observer);
    EXPECT_EQ(Steps(training), 2);
    const char* json = nullptr;
    EXPECT_CT(ct_describe(training, &json));
    all += json;
    Owned<ct_model> model;
    EXPECT_CT(ct_model_open(run.c_str(), nullptr, &model));
    EXPECT_CT(ct_model_generate(model, "It was", 6, R"({"temperature": 0.7})", nullptr, nullptr, &json, nullptr));
    all += json;
    // Times, and the folder's name, differ.
    all = std::regex_replace(all, std::regex("\"(seconds|tokens_per_second)[^,}]*|" + run), "");
    for (const char* file : {"/model.safetensors", "/tokenizer.model"}) all += ReadFile(run + file);
    return all;
  };
  const std::string expected = train(folder / "point");
  const testing::DecimalCommaScope comma;
  EXPECT_EQ(train(folder / "comma"), expected);
  if (!comma.of_c()) GTEST_SKIP() << "no localedef here: only C++'s locale was tried";
}

class CModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    run_ = folder_ / "run";
    const Owned<ct_training> training = Open(run_);
    EXPECT_EQ(Steps(training), 4);
    EXPECT_CT(ct_model_open(run_.c_str(), nullptr, &model_));
  }

  // The ids as a row, int32[1, n], under each name.
  Owned<ct_tensors> Inputs(const std::string& text, const std::vector<const char*>& names) {
    Owned<ct_tensor> ids;
    EXPECT_CT(ct_model_encode(model_, text.data(), text.size(), &ids));
    ct_array array = {};
    EXPECT_CT(ct_tensor_array(ids, &array));
    const std::vector<int64_t> shape = {1, array.shape[0]};
    const ct_array row = ArrayOf(array.data, CT_INT32, shape);
    Owned<ct_tensor> tensor;
    EXPECT_CT(ct_tensor_create(&row, &tensor));
    Owned<ct_tensors> inputs;
    EXPECT_CT(ct_tensors_create(&inputs));
    for (const char* name : names) EXPECT_CT(ct_tensors_add(inputs, name, tensor));
    return inputs;
  }

  TempDir folder_;
  std::string run_;
  Owned<ct_model> model_;
};

struct Heard {
  std::string text;
  int calls = 0, stop_after = 1 << 30;
  const ct_model* model = nullptr;
};
int Hear(void* context, const char* piece, size_t length, int by_the_model) {
  Heard& heard = *static_cast<Heard*>(context);
  heard.text.append(piece, length);
  ++heard.calls;
  EXPECT_TRUE(by_the_model == 0 || by_the_model == 1);
  ct_tensor* ids = nullptr;  // the model may be read within its callback
  EXPECT_CT(ct_model_encode(heard.model, "a", 1, &ids));
  EXPECT_CT(ct_free(ids));
  return heard.calls >= heard.stop_after;
}

TEST_F(CModelTest, TextsBecomeVectors) {
  const char* const texts[] = {"one", "a fox", "one"};
  const size_t lengths[] = {3, 5, 3};
  const auto embed = [&](const size_t* of_texts, const char* options) {
    Owned<ct_tensor> vectors;
    EXPECT_CT(ct_model_embed(model_, texts, of_texts, 3, options, &vectors));
    ct_array array = {};
    EXPECT_CT(ct_tensor_array(vectors, &array));
    EXPECT_EQ(array.rank, 2);
    EXPECT_EQ(array.shape[0], 3);
    const float* const values = static_cast<const float*>(array.data);
    return std::vector<float>(values, values + array.shape[0] * array.shape[1]);
  };
  const std::vector<float> all = embed(lengths, R"({"pooling": "last", "normalize": true})");
  const size_t d = all.size() / 3;
  double square = 0;
  for (size_t j = 0; j < d; ++j) {
    EXPECT_EQ(all[j], all[2 * d + j]);
    square += static_cast<double>(all[j]) * static_cast<double>(all[j]);
  }
  EXPECT_NEAR(square, 1, 1e-6);
  EXPECT_EQ(embed(nullptr, R"({"pooling": "last", "normalize": true, "batch": 1})"), all);
  EXPECT_NE(embed(nullptr, nullptr), all);
  Owned<ct_tensor> none;
  EXPECT_EQ(ct_model_embed(model_, texts, lengths, 3, R"({"pooling": "sum"})", &none), CT_USAGE);
  EXPECT_STREQ(ct_last_error_field(), "pooling");
  EXPECT_EQ(ct_model_embed(model_, texts, lengths, 0, nullptr, &none), CT_USAGE);
  EXPECT_EQ(ct_model_embed(model_, nullptr, lengths, 3, nullptr, &none), CT_USAGE);
}

TEST_F(CModelTest, WhatIsGeneratedComesInPiecesAndMayBeStopped) {
  Heard heard = {.model = model_};
  const char* text = nullptr;
  size_t length = 0;
  constexpr char kOptions[] = R"({"max_length": 12, "temperature": 1, "seed": 5})";
  ASSERT_CT(ct_model_generate(model_, "The", 3, kOptions, Hear, &heard, &text, &length));
  EXPECT_EQ(std::string(text, length), heard.text);
  EXPECT_EQ(heard.text.substr(0, 3), "The");
  const std::string whole = heard.text;

  Heard some = {.stop_after = 3, .model = model_};
  EXPECT_EQ(ct_model_generate(model_, "The", 3, kOptions, Hear, &some, &text, &length), CT_STOPPED);
  EXPECT_EQ(std::string(text, length), some.text);
  EXPECT_LT(some.text.size(), whole.size());
  EXPECT_EQ(whole.substr(0, some.text.size()), some.text);

  ASSERT_CT(ct_model_generate(model_, "The", 3, R"({"beams": 2, "max_length": 4})", nullptr, nullptr, &text, nullptr));
  EXPECT_EQ(ct_model_generate(model_, "The", 3, R"({"beams": 0})", nullptr, nullptr, &text, nullptr), CT_USAGE);
  EXPECT_STREQ(ct_last_error_field(), "beams");
}

TEST_F(CModelTest, ThreadsMayUseItAtOnce) {
  const Owned<ct_tensors> inputs = Inputs("a small fox", {"input_ids", "labels"});
  Owned<ct_tensors> expected;
  ASSERT_CT(ct_model_forward(model_, inputs, nullptr, &expected, nullptr));
  const std::vector<float> loss = ValuesOf(expected, "loss");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        Owned<ct_tensors> outputs, gradients;
        Owned<ct_pass> pass;
        if (ct_model_forward(model_, inputs, nullptr, &outputs, &pass) != CT_OK) ++wrong;
        if (ValuesOf(outputs, "loss") != loss) ++wrong;
        if (ct_backward(pass, "loss", nullptr, &gradients) != CT_OK) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// The handle of one thread, freed by another while it is in use: the call ends as it would have.
TEST_F(CModelTest, AnObjectThatIsFreedInUseStaysUntilTheCallIsOver) {
  struct State {
    ct_model* model;
    ct_status freed;
  } state = {nullptr, CT_OK};
  ASSERT_CT(ct_model_open(run_.c_str(), nullptr, &state.model));
  const char* text = nullptr;
  const auto free_it = [](void* context, const char*, size_t, int) {
    State& self = *static_cast<State*>(context);
    if (self.model != nullptr) std::thread([&] { self.freed = ct_free(self.model); }).join();
    self.model = nullptr;
    return 0;
  };
  EXPECT_CT(ct_model_generate(state.model, "The", 3, R"({"max_length": 5})", free_it, &state, &text, nullptr));
  EXPECT_EQ(state.freed, CT_OK);
}

TEST_F(CModelTest, AForkedChildGoesOn) {
  const Owned<ct_tensors> inputs = Inputs("a small fox", {"input_ids"});
  Owned<ct_tensors> expected;
  ASSERT_CT(ct_model_forward(model_, inputs, nullptr, &expected, nullptr));
  const std::vector<float> logits = ValuesOf(expected, "logits");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ct_tensors* outputs = nullptr;
    const bool good = ct_model_forward(model_, inputs, nullptr, &outputs, nullptr) == CT_OK &&
                      ValuesOf(outputs, "logits") == logits && ct_free(outputs) == CT_OK;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(CModelTest, WhatHoldsNoModelOrTextIsAnError) {
  ct_model* none = nullptr;
  EXPECT_EQ(ct_model_open((folder_ / "nothing").c_str(), nullptr, &none), CT_DATA);
  // What is not computed so is not accepted either.
  for (const auto& [options, field] : {std::pair(R"({"dtype": "int32"})", "dtype"),
                                       {R"({"dtype": "float64", "precision": "bf16"})", "precision"},
                                       {R"({"dtype": "float64", "implementation": "fused"})", "implementation"}}) {
    EXPECT_EQ(ct_model_open(run_.c_str(), options, &none), CT_USAGE);
    EXPECT_STREQ(ct_last_error_field(), field);
  }
  EXPECT_EQ(none, nullptr);
  ct_tensor* ids = nullptr;
  EXPECT_EQ(ct_model_encode(model_, "\xff", 1, &ids), CT_USAGE);
  EXPECT_EQ(ct_model_encode(model_, nullptr, 3, &ids), CT_USAGE);
  Owned<ct_model> in_double;
  ASSERT_CT(ct_model_open(run_.c_str(), R"({"dtype": "float64"})", &in_double));
  const char* json = nullptr;
  ASSERT_CT(ct_describe(in_double, &json));
  EXPECT_EQ(ParseJson(json, "description").At("implementation"), Json("composed"));
}

}  // namespace crosstalk::training_test
