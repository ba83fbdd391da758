// Exercise 7.3 (3 points): a training step.
//
// The model, its batch and the optimizer are there. Do what every step does, in the right order:
//
//   the loss, mean cross-entropy in nats     crosstalk::CrossEntropy(step.logits(), step.targets).loss is a sum over
//   rows its gradients                            Backward(loss) their norm, at most step.clip
//   crosstalk::ClipScale(crosstalk::GradientNorm(step.parameters), step.clip) a step of the optimizer
//   step.optimizer.Step(step.learning_rate, that scale) no gradients for the next step parameter.value.ZeroGrad() of
//   each of step.parameters
//
// The checker then trains a small model of letters with it, 150 steps, three seeds.
#include "tests/course/library_exercise.h"

using namespace course;

// → the loss, loss.value().Item()
static double Train(TrainingStep& step) { throw Unsolved("7.3"); }

EXERCISE(7_3, Train);
