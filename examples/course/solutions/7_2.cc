// A solution of exercise 7.2: a step of AdamW.
#include "examples/course/checker/exercise.h"

using namespace course;

// gradient[i]; changes state.p[i], state.m[i], state.v[i]
static void Step(const std::vector<double>& gradient, const AdamSettings& settings, AdamState& state) {
  const AdamSettings& s = settings;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double g = gradient[i];
    double &p = state.p[i], &m = state.m[i], &v = state.v[i];
    m = s.beta1 * m + (1 - s.beta1) * g;
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(s.beta1, s.step));
    const double v_hat = v / (1 - std::pow(s.beta2, s.step));
    p -= s.learning_rate * (m_hat / (std::sqrt(v_hat) + s.epsilon) + s.weight_decay * p);
  }
}

EXERCISE(7_2, Step);
