// A solution of exercise 7.3: a training step.
#include "examples/course/checker/library_exercise.h"

using namespace course;

// → the loss, loss.value().Item()
static double Train(TrainingStep& step) {
  const double rows = static_cast<double>(step.targets.num_elements());
  const Variable loss = Scale(crosstalk::CrossEntropy(step.logits(), step.targets).loss, 1 / rows);
  Backward(loss);
  const double scale = crosstalk::ClipScale(crosstalk::GradientNorm(step.parameters), step.clip);
  step.optimizer.Step(step.learning_rate, scale);
  for (const auto& parameter : step.parameters) parameter.value.ZeroGrad();
  return loss.value().Item();
}

EXERCISE(7_3, Train);
