// A training loop that a host in C makes of a model, batches and an optimizer. Its bits are held against a training's
// in tests/python/test_loop.py.
#include <cmath>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tests/models/bindings/c/owned.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::c_loop_test {

constexpr char kTiny[] = R"({"model": "lm", "tokenizer": "bytes", "d_model": 16, "heads": 2, "d_ff": 24, "layers": 1,
  "input_length": 16, "batch": 4, "optimizer": "adamw", "learning_rate": 0.01, "steps": 40})";

struct Loop {
  Owned<ct_model> model;
  Owned<ct_dataset> dataset;
  Owned<ct_batches> batches;
  Owned<ct_optimizer> optimizer;

  Loop() {
    EXPECT_CT(ct_model_create(kTiny, &model));
    EXPECT_CT(ct_dataset_create(model, nullptr, nullptr, &dataset));
    EXPECT_CT(ct_batches_create(dataset, nullptr, &batches));
    EXPECT_CT(ct_optimizer_create(model, nullptr, &optimizer));
  }

  Owned<ct_tensors> Gradients(int64_t step, float* loss = nullptr) const {
    Owned<ct_tensors> batch, outputs, gradients;
    Owned<ct_pass> pass;
    EXPECT_CT(ct_batches_at(batches, step, &batch));
    EXPECT_CT(ct_model_loss(model, batch, nullptr, &outputs, &pass));
    batch.Free();
    if (loss != nullptr) *loss = ValuesOf(outputs, "loss")[0];
    EXPECT_CT(ct_backward(pass, "loss", nullptr, &gradients));
    return gradients;
  }
};

TEST(CLoopTest, ItLearnsSavesAndGoesOnFromItsState) {
  const TempDir folder;
  const Loop loop;
  float first = 0, last = 0;
  for (int64_t step = 0; step < 40; ++step) {
    const Owned<ct_tensors> gradients = loop.Gradients(step, step == 0 ? &first : &last);
    const char* json = nullptr;
    ASSERT_CT(ct_optimizer_step(loop.optimizer, gradients, nullptr, &json));
    EXPECT_EQ(ParseJson(json, "step").At("step"), Json(step + 1));
  }
  EXPECT_LT(last, 0.8F * first);
  ASSERT_CT(ct_model_save(loop.model, (folder / "mine").c_str(), loop.optimizer));
  EXPECT_EQ(ct_model_save(loop.model, (folder / "mine").c_str(), nullptr), CT_USAGE) << "step 0 is before step 40";

  Owned<ct_model> opened;
  ASSERT_CT(ct_model_open((folder / "mine").c_str(), nullptr, &opened));
  Owned<ct_optimizer> other;
  ASSERT_CT(ct_optimizer_create(opened, R"({"optimizer": "adamw", "learning_rate": 0.01, "steps": 40})", &other));
  Owned<ct_tensors> state, of_other;
  ASSERT_CT(ct_optimizer_state(loop.optimizer, &state));
  ASSERT_CT(ct_optimizer_load(other, state));
  const Owned<ct_tensors> gradients = loop.Gradients(40);
  ASSERT_CT(ct_optimizer_step(loop.optimizer, gradients, nullptr, nullptr));
  ASSERT_CT(ct_optimizer_step(other, gradients, nullptr, nullptr));
  Owned<ct_tensors> here, there;
  ASSERT_CT(ct_parameters(loop.model, &here));
  ASSERT_CT(ct_parameters(opened, &there));
  EXPECT_EQ(ValuesOf(here, "embedding.table"), ValuesOf(there, "embedding.table"));
}

TEST(CLoopTest, HandlesMayBeFreedInAnyOrder) {
  Loop loop;
  const Owned<ct_tensors> gradients = loop.Gradients(0);
  loop.model.Free();
  loop.dataset.Free();
  Owned<ct_tensors> batch;
  EXPECT_CT(ct_batches_at(loop.batches, 1, &batch));
  EXPECT_CT(ct_optimizer_step(loop.optimizer, gradients, nullptr, nullptr));
}

TEST(CLoopTest, AnUpdateThatCannotBeMadeChangesNothing) {
  const Loop loop;
  Owned<ct_tensors> parameters, bad;
  ASSERT_CT(ct_parameters(loop.model, &parameters));
  const std::vector<float> before = ValuesOf(parameters, "embedding.table");
  std::vector<float> values(before.size(), 1);
  values[17] = NAN;
  const Owned<ct_tensor> gradient = Wrap(values, {384, 16});
  ASSERT_CT(ct_tensors_create(&bad));
  ASSERT_CT(ct_tensors_add(bad, "embedding.table", gradient));
  EXPECT_EQ(ct_optimizer_step(loop.optimizer, bad, nullptr, nullptr), CT_NUMERICAL);
  EXPECT_NE(std::string(ct_last_error()).find("embedding.table[17] = nan"), std::string::npos) << ct_last_error();
  ASSERT_CT(ct_tensors_add(bad, "embedding", gradient));
  EXPECT_EQ(ct_optimizer_step(loop.optimizer, bad, nullptr, nullptr), CT_USAGE);
  EXPECT_EQ(ct_optimizer_step(loop.optimizer, nullptr, R"({"learning_rate": -1})", nullptr), CT_USAGE);
  EXPECT_EQ(ValuesOf(parameters, "embedding.table"), before);
}

TEST(CLoopTest, MisuseIsNamed) {
  const TempDir folder;
  const Loop loop, another;
  ct_model* model = nullptr;
  ct_dataset* dataset = nullptr;
  ct_batches* batches = nullptr;
  ct_optimizer* optimizer = nullptr;
  ct_tensors* tensors = nullptr;
  ct_pass* pass = nullptr;
  std::vector<float> values(4, 3);
  const Owned<ct_tensor> floats = Wrap(values, {4});
  Owned<ct_tensors> nothing;
  ASSERT_CT(ct_tensors_create(&nothing));
  const auto says = [](ct_status status, const std::string& text) {
    EXPECT_EQ(status, CT_USAGE) << text;
    EXPECT_NE(std::string(ct_last_error()).find(text), std::string::npos) << ct_last_error();
  };
  says(ct_model_create(R"({"modell": "lm"})", &model), "modell: is not a key");
  says(ct_model_create(R"({"init_from": "run"})", &model), "init_from: is for a training");
  says(ct_model_create(R"({"tokenizer": "none", "data": "x"})", &model), "data: needs a tokenizer");
  says(ct_model_create("{}", nullptr), "model is NULL");
  says(ct_dataset_create(loop.model, floats, nullptr, &dataset), "ids: must be int32 or int64, but is float32");
  says(ct_dataset_create(loop.model, floats, R"({"corpus": "copying"})", &dataset), "ids and options");
  says(ct_dataset_create(loop.model, nullptr, R"({"batch": 3})", &dataset), "batch: is not a key");
  says(ct_batches_create(loop.dataset, R"({"part": "test"})", &batches), "\"test\" is none of training, held-out");
  says(ct_batches_create(loop.dataset, R"({"input_length": 17})", &batches), "input_length: 17 tokens are more");
  for (const int64_t index : {int64_t{-1}, INT64_MAX, INT64_MAX / 4}) {
    says(ct_batches_at(loop.batches, index, &tensors), "index: " + std::to_string(index) + " is not between");
  }
  says(ct_optimizer_create(loop.dataset, nullptr, &optimizer), "a dataset has no parameters");
  says(ct_optimizer_create(loop.model, R"({"optimizer": "adam"})", &optimizer), "did you mean \"adamw\"");
  says(ct_model_loss(loop.model, nothing, nullptr, &tensors, &pass), "there is no \"inputs\"");
  says(ct_model_save(loop.model, (folder / "run").c_str(), another.optimizer), "optimizer is of another model");
  says(ct_model_save(loop.model, "", nullptr), "folder is empty");
  says(ct_threads(nullptr), "threads is NULL");
  int threads = 0;
  EXPECT_CT(ct_threads(&threads));
  EXPECT_GE(threads, 1);
}

}  // namespace crosstalk::c_loop_test
