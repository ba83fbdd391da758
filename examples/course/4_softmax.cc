// Chapter 4 of the course (examples/course/4_softmax.md): a softmax that overflows and one that does not, masks at
// three places, of which one is right, the gradient with and without D, and a softmax by chunks.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"

using namespace crosstalk;  // an example may

namespace {

using Row = std::vector<double>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void Print(const char* name, const Row& row) {
  std::printf("  %-34s", name);
  for (const double value : row) {
    if (std::isnan(value)) {
      std::printf("    nan");
    } else {
      std::printf(" %6.3f", value);
    }
  }
  std::printf("\n");
}

Row SoftmaxMinus(const Row& x, double subtracted) {
  Row y;
  double sum = 0;
  for (const double value : x) sum += std::exp(value - subtracted);
  for (const double value : x) y.push_back(std::exp(value - subtracted) / sum);
  return y;
}

Row Stable(const Row& x) { return SoftmaxMinus(x, *std::max_element(x.begin(), x.end())); }

Row OfLibrary(const Row& x) {
  return Softmax(Variable(Tensor::FromValues<double>({static_cast<int64_t>(x.size())}, x)), 0)
      .value()
      .ToVector<double>();
}

}  // namespace

int main() {
  std::printf("large logits\n");
  Print("exp(x) / sum of exp(x)", SoftmaxMinus({1000, 1001, 999}, 0));
  Print("relative to the largest", Stable({1000, 1001, 999}));

  std::printf("the third position is masked\n");
  const Row L = {1, 2, 3, 0};
  Row after = Stable(L);
  after[2] = 0;
  Print("0 in W: sums to less than 1", after);
  Print("0 in L: e^0 is a weight", Stable({1, 2, 0, 0}));
  Print("-inf in L", Stable({1, 2, -kInfinity, 0}));

  std::printf("all positions are masked\n");
  Print("-inf - (-inf)", Stable({-kInfinity, -kInfinity}));
  Print("-1e9: as if none were", Stable({-1e9, -1e9}));
  Print("the library: nothing to attend to", OfLibrary({-kInfinity, -kInfinity}));

  std::printf("the gradient, of dW = (1, 0, 0, 0)\n");
  const Row W = Stable(L), dW = {1, 0, 0, 0};
  double D = 0;
  for (size_t m = 0; m < 4; ++m) D += W[m] * dW[m];
  Row with_D, without_D;
  for (size_t m = 0; m < 4; ++m) {
    with_D.push_back(W[m] * (dW[m] - D));
    without_D.push_back(W[m] * dW[m]);
  }
  const Variable leaf(Tensor::FromValues<double>({4}, L), Variable::RequiresGrad::kYes);
  Backward(Softmax(leaf, 0), Tensor::FromValues<double>({4}, dW));
  Print("W * dW, which is missing D", without_D);
  Print("W * (dW - D)", with_D);
  Print("the tape", leaf.grad().ToVector<double>());

  std::printf("by chunks of two, nothing longer kept\n");
  double largest = -kInfinity, sum = 0;
  for (size_t begin = 0; begin < 4; begin += 2) {
    const double most = std::max({largest, L[begin], L[begin + 1]});
    sum = sum * std::exp(largest - most) + std::exp(L[begin] - most) + std::exp(L[begin + 1] - most);
    largest = most;
    std::printf("  after %zu: largest %g, sum %.4f\n", begin + 2, largest, sum);
  }
  Print("e^(L - largest) / sum", {std::exp(1 - largest) / sum, std::exp(2 - largest) / sum, std::exp(3 - largest) / sum,
                                  std::exp(0 - largest) / sum});
  Print("at once", W);
}
