// Freezing, for every model of the registry: what is left to train has the gradients that it has in a whole model.
#include <gtest/gtest.h>

#include <map>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/data.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_config.h"

namespace crosstalk {
namespace frozen_test {

using testing::MessageOf;

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
        const auto model = MakeModel(*ConfigureModel(*resolved, VocabularyOf(*resolved, data.tokenizer.get())), 1);
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
    const auto model = MakeModel(*ConfigureModel(*resolved, {.size = 300, .tokens = {}}), 1);
    PrepareModel(config.optimization, *model);
  };
  EXPECT_NO_THROW(freeze("embedding,encoder.block_0,*.P_l"));
  EXPECT_EQ(MessageOf([&] { freeze("embedding,encodr"); }),
            "frozen: there is no parameter \"encodr\", nor any under that path; did you mean \"encoder\"?; the model's "
            "parts are decoder, embedding, encoder");
  EXPECT_EQ(MessageOf([&] { freeze("embedding,"); }), "frozen: \"embedding,\" has an empty name");
  EXPECT_EQ(MessageOf([&] { freeze("*coder*,embedding"); }),
            "frozen: \"*coder*,embedding\" names all parameters, which leaves nothing to train");
}

}  // namespace frozen_test
}  // namespace crosstalk
