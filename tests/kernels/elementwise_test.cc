#include "crosstalk/kernels/elementwise.h"

#include <array>

#include "crosstalk/kernels/reference/elementwise.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace elementwise_test {

CROSSTALK_KERNEL_TEST(ElementwiseTest);

constexpr std::array kUnary = {UnaryOp::kExp,  UnaryOp::kLog,     UnaryOp::kSqrt, UnaryOp::kSquare,
                               UnaryOp::kTanh, UnaryOp::kSigmoid, UnaryOp::kGelu, UnaryOp::kGeluTanh};
constexpr std::array kBinary = {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv};

bool NeedsPositive(UnaryOp f) { return f == UnaryOp::kLog || f == UnaryOp::kSqrt; }

template <typename T>
std::vector<T> InputsFor(UnaryOp f, int64_t count) {
  std::vector<T> x = RandomValues<T>(count, "x", 2.5);
  if (NeedsPositive(f)) {
    for (T& v : x) v = std::abs(v) + T(0.001);
  }
  return x;
}

// dx = dy · f′(x), of an activation with the slope that comes with its value.
template <typename T>
void GradientOf(UnaryOp f, int64_t n, const T* x, const T* y, const T* dy, T* dx) {
  if (!IsActivation(f)) return UnaryGradient(f, n, x, y, dy, dx);
  Guarded<T> value(n), slope(n);
  Activation(f, n, x, value.data(), slope.data());
  EXPECT_TRUE(value.GuardsIntact() && slope.GuardsIntact());
  EXPECT_TRUE(SameBits(value.values(), std::vector<T>(y, y + n)));  // those of Unary
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * slope.values()[static_cast<size_t>(i)];
}

// In units of the roundoff u, against the exact value in double. Vector functions are within 4 ulp (8 u). The error of
// sigmoid, gelu and their like also carries that of the argument of an exponential, |argument| u ≤ 40 u for
// |x| < 10; an absolute part of 16 u · max(1, |x|) covers the sums that cancel (1 - y², 1 + tanh, 1 - erfc/2).
template <typename T>
void CheckUnary() {
  const double u = kRoundoff<T>;
  for (const UnaryOp f : kUnary) {
    const bool cancels =
        f == UnaryOp::kTanh || f == UnaryOp::kSigmoid || f == UnaryOp::kGelu || f == UnaryOp::kGeluTanh;
    const bool reads_y = GradientReadsOutput(f);
    for (int64_t n = 0; n <= kMaxLength; ++n) {
      const std::vector<T> x = InputsFor<T>(f, n), dy = RandomValues<T>(n, "dy");
      Guarded<T> in(x), out(n), grad_in(dy), grad_out(n);
      std::vector<double> y(n), dx(n);
      for (int64_t i = 0; i < n; ++i) {
        y[i] = reference::Unary(f, static_cast<double>(x[i]));
        dx[i] = static_cast<double>(dy[i]) * reference::Derivative(f, static_cast<double>(x[i]));
      }
      SCOPED_TRACE("unary " + std::to_string(int(f)) + " n=" + std::to_string(n));
      Unary(f, n, in.data(), out.data());
      ASSERT_TRUE(AllClose(out.values(), y, {(cancels ? 40 : 1) * u, 48 * u}));
      // The one that is not read may be null.
      GradientOf<T>(f, n, reads_y ? nullptr : in.data(), reads_y || IsActivation(f) ? out.data() : nullptr,
                    grad_in.data(), grad_out.data());
      ASSERT_TRUE(AllClose(grad_out.values(), dx, {(cancels ? 160 : 1) * u, 80 * u}));
      ASSERT_TRUE(out.GuardsIntact() && grad_out.GuardsIntact());
    }
  }
}
CROSSTALK_FLOATS_TEST(ElementwiseTest, FunctionsAndGradientsMatchTheReference, CheckUnary)

// The largest error of f over x, in units of the last place of the exact value.
template <typename T>
double WorstUlp(UnaryOp f, const std::vector<T>& x, long double (*exact)(long double)) {
  std::vector<T> y(x.size());
  Unary(f, static_cast<int64_t>(x.size()), x.data(), y.data());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double expected = exact(x[i]);
    const T magnitude = std::abs(static_cast<T>(expected));
    const T next = std::nextafter(magnitude, std::numeric_limits<T>::infinity());
    const long double unit = static_cast<long double>(next) - static_cast<long double>(magnitude);
    const long double error = std::abs(static_cast<long double>(y[i]) - expected) / unit;
    worst = std::max(worst, static_cast<double>(error));
  }
  return worst;
}

// What functions-inl.h says, over the whole range and down to subnormal results and arguments.
template <typename T>
void CheckUlp() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> exponents, positive, both;
  const double low = std::log(static_cast<double>(Limits::min())) - Limits::digits / 2;
  const double high = std::log(static_cast<double>(Limits::max()));
  const double lowest = std::log2(static_cast<double>(Limits::min())) - Limits::digits + 1;
  const double highest = std::log2(static_cast<double>(Limits::max()));
  constexpr int kCount = 40'000;
  for (int i = 0; i < kCount; ++i) {
    const double share = (i + 0.5) / kCount;
    exponents.push_back(static_cast<T>(low + (high - 1e-4 - low) * share));
    exponents.push_back(static_cast<T>(2 * share - 1));
    positive.push_back(static_cast<T>(std::exp2(lowest + (highest - lowest) * share)));
    positive.push_back(static_cast<T>(0.5 + 1.5 * share));
    both.push_back(static_cast<T>(44 * share - 22));
    both.push_back(static_cast<T>(std::exp2(-40 * share)));
  }
  EXPECT_LE(WorstUlp(UnaryOp::kExp, exponents, [](long double x) { return std::exp(x); }), 1.1);
  EXPECT_LE(WorstUlp(UnaryOp::kLog, positive, [](long double x) { return std::log(x); }), 1.0);
  EXPECT_LE(WorstUlp(UnaryOp::kTanh, both, [](long double x) { return std::tanh(x); }), 4.0);
}
CROSSTALK_FLOATS_TEST(ElementwiseTest, FunctionsAreAsExactAsTheySay, CheckUlp)

// gelu(x) - x Φ(x) over the whole range, in ulp of x.
TEST_P(ElementwiseTest, GeluIsAccurateEverywhere) {
  std::vector<float> x;
  for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<float>(i) * 0.0025f);
  std::vector<float> y(x.size());
  Unary(UnaryOp::kGelu, static_cast<int64_t>(x.size()), x.data(), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = reference::Unary(UnaryOp::kGelu, static_cast<double>(x[i]));
    ASSERT_NEAR(y[i], exact, 4 * kRoundoff<float> * std::abs(x[i])) << "x=" << x[i];
  }
}

// Against double from 1e-30 to 1e30, as far as a float holds the result. Where a function ends at 0 or 1 its vector
// form may be off by a few roundings of 1, or of x where it goes as x.
TEST_P(ElementwiseTest, EveryMagnitudeIsRightInValueAndGradient) {
  for (const UnaryOp f : kUnary) {
    std::vector<float> x;
    for (int e = -30; e <= 30; ++e) {
      for (const double sign : {1.0, -1.0}) {
        if (sign > 0 || !NeedsPositive(f)) x.push_back(static_cast<float>(sign * std::pow(10.0, e)));
      }
    }
    const int64_t n = static_cast<int64_t>(x.size());
    std::vector<float> y(x.size()), dx(x.size()), dy(x.size(), 1.0f);
    Unary(f, n, x.data(), y.data());
    GradientOf(f, n, x.data(), y.data(), dy.data(), dx.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = static_cast<double>(x[i]), u = kRoundoff<float>;
      const std::vector<float> value = {static_cast<float>(reference::Unary(f, v))};
      const std::vector<float> slope = {static_cast<float>(reference::Derivative(f, v))};
      EXPECT_TRUE(AllClose(std::vector{y[i]}, value, {40 * u * std::min(1.0, std::abs(v)), 48 * u}))
          << "unary " << int(f) << " of " << x[i];
      EXPECT_TRUE(AllClose(std::vector{dx[i]}, slope, {160 * u * std::min(1.0, std::abs(v)), 80 * u}))
          << "gradient of unary " << int(f) << " at " << x[i];
    }
  }
}

TEST_P(ElementwiseTest, EndsOfTheRange) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    UnaryOp f;
    std::vector<std::pair<float, float>> values;
  } cases[] = {{UnaryOp::kExp, {{inf, inf}, {-inf, 0}, {200, inf}, {-200, 0}, {nan, nan}, {0, 1}}},
               {UnaryOp::kLog, {{0, -inf}, {-1, nan}, {inf, inf}, {nan, nan}}},
               {UnaryOp::kTanh, {{inf, 1}, {-inf, -1}, {nan, nan}}},
               {UnaryOp::kSigmoid, {{inf, 1}, {-inf, 0}, {nan, nan}}},
               {UnaryOp::kGelu, {{50, 50}, {nan, nan}}},
               {UnaryOp::kGeluTanh, {{50, 50}, {nan, nan}}}};
  for (const auto& [f, values] : cases) {
    for (const auto& [of, is] : values) {
      for (const int64_t n : {1, 16}) {  // as a remainder, and as a whole vector
        const std::vector<float> x(n, of), expected(n, is);
        std::vector<float> y(n);
        Unary(f, n, x.data(), y.data());
        EXPECT_TRUE(AllClose(y, expected, {1e-45, 1e-6})) << "unary " << int(f) << " of " << of << ", n=" << n;
      }
    }
  }
}

// One operation, rounded once: the reference in T gives the same bits, whatever the target.
template <typename T>
void CheckBinary() {
  for (const BinaryOp op : kBinary) {
    for (int64_t n = 0; n <= kMaxLength; ++n) {
      const std::vector<T> a = RandomValues<T>(n, "a"), b = RandomValues<T>(n, "b");
      Guarded<T> in_a(a), in_b(b), out(n);
      std::vector<T> expected(n);
      for (int64_t i = 0; i < n; ++i) expected[i] = reference::Binary(op, a[i], b[i]);
      Binary(op, n, in_a.data(), in_b.data(), out.data());
      ASSERT_TRUE(SameBits(out.values(), expected)) << "binary " << int(op) << " n=" << n;
      ASSERT_TRUE(out.GuardsIntact());
    }
  }
}
CROSSTALK_FLOATS_TEST(ElementwiseTest, BinaryMatchesTheReference, CheckBinary)

struct StridedCase {
  Shape shape;
  Strides a, b;
};
const StridedCase kStrided[] = {
    {{3, 5, 19}, {95, 19, 1}, {95, 19, 1}},  // merged into one row
    {{3, 5, 19}, {95, 19, 1}, {0, 0, 1}},    // a row vector
    {{3, 5, 19}, {95, 19, 1}, {5, 1, 0}},    // a column
    {{3, 5, 19}, {0, 0, 0}, {95, 19, 1}},    // a scalar on the left
    {{3, 5, 19}, {1, 3, 15}, {95, 19, 1}},   // a transposed
    {{3, 5, 19}, {100, 20, 1}, {0, 19, 1}},  // padded rows, a stretched plane
    {{3, 5, 19}, {38, 0, 2}, {0, 1, 0}},     // steps of two
    {{1, 1, 1}, {7, 7, 7}, {0, 0, 0}},      {{}, {}, {}},
    {{4, 0, 3}, {0, 3, 1}, {0, 3, 1}},      {{2, 40000}, {40000, 1}, {1, 0}},  // rows longer than a tile
};

TEST_P(ElementwiseTest, StridedBinaryMatchesElementByElement) {
  const std::vector<float> a = RandomValues<float>(80000, "a"), b = RandomValues<float>(80000, "b");
  for (const StridedCase& c : kStrided) {
    for (const BinaryOp op : {BinaryOp::kSub, BinaryOp::kMul}) {
      const int64_t count = c.shape.NumElements();
      std::vector<float> expected;
      for (int64_t i = 0; i < count; ++i) {
        int64_t at_a = 0, at_b = 0, rest = i;
        for (int d = c.shape.rank() - 1; d >= 0; --d) {
          at_a += rest % c.shape[d] * c.a[d];
          at_b += rest % c.shape[d] * c.b[d];
          rest /= c.shape[d];
        }
        expected.push_back(reference::Binary(op, a[at_a], b[at_b]));
      }
      Guarded<float> out(count);
      Binary(op, c.shape, a.data(), c.a, b.data(), c.b, out.data());
      EXPECT_TRUE(SameBits(out.values(), expected)) << c.shape << " strides " << c.a << ", " << c.b;
      EXPECT_TRUE(out.GuardsIntact());
    }
  }
}

TEST_P(ElementwiseTest, MaskedFillTakesTheValueWhereTheMaskIsOne) {
  const Shape shape{2, 3, 7, 5};  // a mask [b, n, m] stretched over heads
  const std::vector<float> x = RandomValues<float>(210, "x");
  std::vector<uint8_t> mask(70);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i * 7 % 3 == 0;
  std::vector<float> y(210), expected(210);
  for (int64_t i = 0; i < 210; ++i) expected[i] = mask[i / 105 * 35 + i % 35] != 0 ? -9.0f : x[i];
  MaskedFill(shape, x.data(), {105, 35, 5, 1}, mask.data(), {35, 0, 5, 1}, -9.0f, y.data());
  EXPECT_TRUE(SameBits(y, expected));
}

// a x + b and y + a x: one fused or two separate roundings, |error| ≤ 2 u (|a x| + |b|).
TEST_P(ElementwiseTest, AffineAndAxpy) {
  for (int64_t n = 0; n <= kMaxLength; ++n) {
    const std::vector<float> x = RandomValues<float>(n, "x"), y = RandomValues<float>(n, "y");
    Guarded<float> out(n), sum(y);
    Affine(n, 1.5f, -0.25f, x.data(), out.data());
    Axpy(n, -2.5f, x.data(), sum.data());
    std::vector<double> affine(n), accumulated(n);
    for (int64_t i = 0; i < n; ++i) {
      affine[i] = 1.5 * x[i] - 0.25;
      accumulated[i] = y[i] - 2.5 * x[i];
    }
    const double u = kRoundoff<float>;
    ASSERT_TRUE(AllClose(out.values(), affine, {2 * u * 8, 0})) << n;  // |x| < 4
    ASSERT_TRUE(AllClose(sum.values(), accumulated, {2 * u * 16, 0})) << n;
    ASSERT_TRUE(out.GuardsIntact() && sum.GuardsIntact());
  }
}

TEST_P(ElementwiseTest, SameBitsOnAnyThreads) {
  const int64_t n = 100003;
  const std::vector<float> x = RandomValues<float>(n, "x");
  ExpectSameBitsOnAnyThreads([&] {
    std::vector<float> y(n);
    Unary(UnaryOp::kGelu, n, x.data(), y.data());
    Binary(BinaryOp::kMul, {n}, y.data(), {1}, x.data(), {0}, y.data());
    Dropout<float>(n, 0.3, {1, 2, 3}, y.data(), y.data());
    return y;
  });
}

// An element's bits do not depend on its place: a tile boundary or remainder elsewhere changes nothing.
TEST_P(ElementwiseTest, BitsDoNotDependOnThePlace) {
  const std::vector<float> x = RandomValues<float>(kMaxLength, "x");
  for (const UnaryOp f : {UnaryOp::kExp, UnaryOp::kTanh, UnaryOp::kGelu, UnaryOp::kGeluTanh}) {
    std::vector<float> whole(kMaxLength);
    Unary(f, kMaxLength, x.data(), whole.data());
    for (int64_t i = 0; i < kMaxLength; ++i) {
      float alone = 0;
      Unary(f, 1, x.data() + i, &alone);
      ASSERT_TRUE(SameBits(std::vector<float>{alone}, std::vector<float>{whole[i]})) << "unary " << int(f) << " " << i;
    }
  }
}

CROSSTALK_KERNEL_TEST(ReluTest);

// A long array is cut between bytes of signs; in place is the same.
template <typename T>
void CheckRelu() {
  const T nan = std::numeric_limits<T>::quiet_NaN(), tiny = std::numeric_limits<T>::denorm_min();
  const T special[] = {nan, 0, -T(0), tiny, -tiny, std::numeric_limits<T>::infinity()};
  std::vector<int64_t> lengths = {100003};
  for (int64_t n = 0; n <= kMaxLength; ++n) lengths.push_back(n);
  for (const int64_t n : lengths) {
    std::vector<T> x = RandomValues<T>(n, "x");
    for (int64_t i = 0; i < n; i += 5) x[i] = special[i / 5 % std::size(special)];
    const std::vector<T> dy = RandomValues<T>(n, "dy");
    Guarded<T> in(x), out(n), in_place(x), grad_in(dy), grad_out(n);
    Guarded<uint8_t> positive(SignBytes(n)), again(SignBytes(n));
    Relu(n, in.data(), out.data(), positive.data());
    Relu(n, in_place.data(), in_place.data(), again.data());
    ReluGradient(n, positive.data(), grad_in.data(), grad_out.data());
    const std::vector<T> results = out.values(), gradients = grad_out.values();
    for (int64_t i = 0; i < n; ++i) {
      const T y = results[i];
      ASSERT_TRUE(std::isnan(x[i]) ? std::isnan(y) : y == (x[i] > 0 ? x[i] : 0)) << x[i] << " at " << i << " of " << n;
      ASSERT_EQ(gradients[i], x[i] > 0 ? dy[i] : 0) << x[i] << " at " << i << " of " << n;
    }
    ASSERT_TRUE(SameBits(in_place.values(), results));
    ASSERT_EQ(again.values(), positive.values());
    ASSERT_TRUE(out.GuardsIntact() && grad_out.GuardsIntact() && positive.GuardsIntact()) << n;
  }
}
CROSSTALK_FLOATS_TEST(ReluTest, ValuesAndGradientsAreTheDefinitionsForEveryRemainder, CheckRelu)

CROSSTALK_KERNEL_TEST(DropoutTest);

// The same mask as Uniform(key, index) < rate, bit for bit, on every target.
template <typename T>
void CheckDropout() {
  const RandomKey key{0x123456789abcdef0, StreamId("site"), 42};
  for (const double rate : {0.0, 0.1, 0.5, 1 - 1e-7}) {
    for (int64_t n = 0; n <= 3 * kMaxLength; ++n) {
      const std::vector<T> x = RandomValues<T>(n, "x");
      Guarded<T> in(x), out(n);
      std::vector<T> expected(n);
      reference::Dropout(n, rate, key, x.data(), expected.data());
      Dropout(n, rate, key, in.data(), out.data());
      ASSERT_TRUE(SameBits(out.values(), expected)) << "n=" << n << " rate=" << rate;
      ASSERT_TRUE(out.GuardsIntact());
    }
  }
}
CROSSTALK_FLOATS_TEST(DropoutTest, MatchesTheReference, CheckDropout)

// The number kept of n = 100,000 is binomial: 5 standard deviations are 475.
TEST_P(DropoutTest, KeepsTheShareItShould) {
  const int64_t n = 100000;
  const std::vector<float> ones(n, 1.0f);
  std::vector<float> y(n);
  Dropout(n, 0.1, {1, 2, 3}, ones.data(), y.data());
  int64_t kept = 0;
  for (const float v : y) kept += v != 0;
  EXPECT_NEAR(static_cast<double>(kept), 90000, 475);
}

}  // namespace elementwise_test
}  // namespace crosstalk::kernels
