// The model of exercise 7.3: letters of the built-in stories, a block with talking heads, small enough to train in a
// second.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "examples/course/checker/library_exercise.h"

namespace course {

struct Training {
  std::vector<double> losses;  // of each step, as the training step returned them
  double held_out = 0;         // nats a letter at the end, over a part of the text that was not trained on
};

// Trains the model of a seed by `step`, `steps` times.
Training TrainLetters(uint64_t seed, int64_t steps, const std::function<double(TrainingStep&)>& step);

// What a right training step gives after so many steps, held out: mean and standard deviation of the seeds 1 to 10.
inline constexpr int64_t kReferenceSteps = 150;
inline constexpr double kReferenceHeldOut = 2.367, kReferenceDeviation = 0.038;

}  // namespace course
