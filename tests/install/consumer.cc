// A program of somebody else's: tests/sessions/install.session runs it against an installed copy, with only what
// pkg-config says. It takes one gradient through the paper's notation, has a module of its own, catches an error, and
// prints how many OpenMP runtimes are loaded.
#include <crosstalk/crosstalk.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#if CROSSTALK_VERSION_MAJOR > 0 || CROSSTALK_VERSION_MINOR < 2 || CROSSTALK_VERSION_PATCH < 0
#error "another version than this program was written for"
#endif

namespace {

class Doubled : public crosstalk::Module {
 public:
  explicit Doubled(const crosstalk::Initializer& init)
      : Module(init), linear_(this, "linear", 3, 2, crosstalk::LinearBias::kNo) {}
  crosstalk::Variable Forward(const crosstalk::Variable& x) const { return crosstalk::Scale(linear_->Forward(x), 2.0); }

 private:
  crosstalk::Child<crosstalk::Linear> linear_;
};

size_t OpenMpRuntimes() {
  std::set<std::string> runtimes;
  const auto look = [](dl_phdr_info* library, size_t, void* found) {
    for (const char* name : {"libgomp", "libomp", "libiomp"}) {
      if (std::strstr(library->dlpi_name, name) != nullptr) static_cast<std::set<std::string>*>(found)->insert(name);
    }
    return 0;
  };
  dl_iterate_phdr(look, &runtimes);
  return runtimes.size();
}

}  // namespace

int main() {
  using crosstalk::Tensor;
  using crosstalk::Variable;
  const Variable A(Tensor::FromValues<float>({2, 3}, {1, 2, 3, 4, 5, 6}), Variable::RequiresGrad::kYes);
  const Variable B(Tensor::FromValues<float>({3, 1}, {1, 10, 100}));
  const Variable C = crosstalk::Einsum("C[i,k] = einsum(A[i,j], B[j,k])", {A, B});
  crosstalk::Backward(crosstalk::Sum(C));
  std::printf("%g %g %g\n", C.value().At({0, 0}), C.value().At({1, 0}), A.grad().At({1, 2}));

  const Doubled doubled(crosstalk::Initializer(1));
  std::printf("%d parameters\n", static_cast<int>(doubled.Parameters().size()));
  crosstalk::Backward(crosstalk::Sum(doubled.Forward(A)));
  try {
    doubled.Forward(B);
  } catch (const crosstalk::Error& error) {
    std::printf("kind %d\n", static_cast<int>(error.kind()));
  }
  std::printf("%d OpenMP runtime\n", static_cast<int>(OpenMpRuntimes()));
  return 0;
}
