#include "crosstalk/models/bindings/c/pass.h"

#include <algorithm>
#include <utility>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/bindings/c/call.h"
#include "crosstalk/models/bindings/c/tensors.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk::c {
namespace {

const NamedVariable& FindOutput(const PassObject& pass, const char* name) {
  CROSSTALK_CHECK(!pass.outputs.empty(), "the pass has given its gradients");
  std::vector<std::string> names;
  for (const NamedVariable& output : pass.outputs) {
    if (output.name == name) return output;
    names.push_back(output.name);
  }
  Fail(ErrorKind::kUsage, "there is no output ", Excerpt(name), "; there are ", Join(names, ", "));
}

Tensor SeedFor(const NamedVariable& output, const ct_tensor* seed) {
  const Tensor& value = output.value.value();
  if (seed == nullptr) {
    CROSSTALK_CHECK(value.num_elements() == 1, "seed is NULL, and ", output.name, value.shape(),
                    " is not one element: its gradient is needed");
    return Tensor();
  }
  const Tensor given = Find<TensorObject>(seed, "seed")->tensor;
  CROSSTALK_CHECK(given.shape() == value.shape() && given.dtype() == value.dtype(), "seed is ", given.dtype(),
                  given.shape(), ", and ", output.name, " is ", value.dtype(), value.shape());
  return given;
}

// A leaf's gradient, where there is one, which leaves it; memory of the host's is not kept in it.
void TakeGradient(const NamedVariable& leaf, std::vector<NamedTensor>* gradients, const Tensor& seed) {
  if (!leaf.value.requires_grad() || !leaf.value.grad().defined()) return;
  Tensor gradient = leaf.value.grad();
  leaf.value.ZeroGrad();
  if (seed.defined() && gradient.SharesStorageWith(seed)) gradient = gradient.Clone();
  gradients->push_back({leaf.name, gradient.Contiguous()});
}

}  // namespace

ForwardContext PassOptions::context() const {
  return {training ? ForwardContext::Phase::kTraining : ForwardContext::Phase::kEvaluation, seed,
          static_cast<uint32_t>(step)};
}

const FieldTable<PassOptions>& PassFields() {
  using P = PassOptions;
  static const FieldTable<P> table = {MakeField("training", &P::training, {}),
                                      MakeField("seed", &P::seed, {.range = kSeedRange}),
                                      MakeField("step", &P::step, {.range = {0, 4294967295.0}})};
  return table;
}

void GivePass(std::vector<NamedVariable> outputs, std::shared_ptr<PassObject> made, ct_tensors** to, ct_pass** pass) {
  std::vector<NamedTensor> values;
  for (const NamedVariable& output : outputs) values.push_back({output.name, output.value.value()});
  NewHandle list(std::make_shared<TensorsObject>(values));
  if (pass != nullptr) {
    made->outputs = std::move(outputs);
    GiveHandle(std::move(made), pass);
  }
  *to = static_cast<ct_tensors*>(list.Take());
}

}  // namespace crosstalk::c

extern "C" ct_status ct_backward(ct_pass* pass, const char* output, const ct_tensor* seed, ct_tensors** gradients) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(output, "output");
    CheckGiven(gradients, "gradients");
    const auto object = Find<PassObject>(pass, "pass");
    const Use use(*object, Access::kAlone);
    const crosstalk::NamedVariable result = FindOutput(*object, output);
    const crosstalk::Tensor given = SeedFor(result, seed);
    const Use parameters_too(*object->owner, Access::kAlone);
    object->outputs.clear();
    object->module->ZeroGrad();
    std::vector<crosstalk::NamedTensor> taken;
    crosstalk::Backward(result.value, given);
    for (const crosstalk::NamedVariable& input : object->inputs) TakeGradient(input, &taken, given);
    for (const crosstalk::NamedParameter& parameter : object->module->Parameters()) {
      TakeGradient({parameter.name, parameter.value}, &taken, given);
    }
    GiveHandle(std::make_shared<TensorsObject>(taken), gradients);
  });
}
