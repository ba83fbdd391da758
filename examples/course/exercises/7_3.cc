// Exercise 7.3 (3 points): a training step.
//
// The model, its batch and the optimizer are there. Do what every step does, in the right order:
//
//   1. The loss: the mean cross-entropy in nats. crosstalk::CrossEntropy(step.logits(), step.targets).loss is the
//      sum over the rows, step.targets.num_elements() of them: Scale(sum, 1.0 / rows).
//
//   2. Its gradients: Backward(loss).
//
//   3. The factor that limits their norm to step.clip:
//      crosstalk::ClipScale(crosstalk::GradientNorm(step.parameters), step.clip).
//
//   4. A step of the optimizer: step.optimizer.Step(step.learning_rate, that factor).
//
//   5. No gradients for the next step: parameter.value.ZeroGrad() of each of step.parameters.
//
// The checker then trains a small model of letters with it, 150 steps, three seeds.
#include "examples/course/checker/library_exercise.h"

using namespace course;

// → the loss, loss.value().Item()
static double Train(TrainingStep& step) { throw Unsolved("7.3"); }

EXERCISE(7_3, Train);
