// What tests of the fused attention in bfloat16 check of a shape or a problem, whichever unit multiplies.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/parallel.h"
#include "gtest/gtest.h"
#include "tests/kernels/attention/attention_kinds.h"
#include "tests/kernels/attention/attention_problem.h"
#include "tests/support/close.h"
#include "tests/support/fusing_targets.h"

namespace crosstalk::kernels {

inline AttentionShape InBFloat16(const Kind& kind, AttentionShape sizes) {
  sizes.precision = Precision::kBFloat16;
  return OfKind(kind, sizes);
}

// The worst errors of any result of a problem: of one element as a share of that result's largest magnitude, but of
// `smallest` where its terms cancel, and of all elements, as the root of their mean square, as a share of the result's.
struct Errors {
  double largest = 0, mean = 0;
};
inline Errors ErrorsOf(const AttentionProblem& p, double smallest = 0.1) {
  const AttentionResults<double> expected = ReferenceAttention(p);
  const AttentionResults<float> actual = FusedAttention(p);
  std::vector<const std::vector<double>*> all;
  AttentionResults<double>::ForEach(
      [&](const char*, std::vector<double> AttentionResults<double>::*member) { all.push_back(&(expected.*member)); });
  size_t next = 0;
  Errors worst;
  const auto raise = [](double value, double& to) {
    if (!(value <= to)) to = value;  // NaN too
  };
  AttentionResults<float>::ForEach([&](const char*, Floats AttentionResults<float>::*member) {
    const std::vector<double>& want = *all[next++];
    double largest = smallest, error = 0, squares = 0, error_squares = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double difference = std::abs(double{(actual.*member)[i]} - want[i]);
      largest = std::max(largest, std::abs(want[i]));
      raise(difference, error);
      squares += want[i] * want[i];
      error_squares += difference * difference;
    }
    raise(error / largest, worst.largest);
    if (squares > 0) raise(std::sqrt(error_squares / squares), worst.mean);
  });
  return worst;
}
inline double LargestError(const AttentionProblem& p, double smallest = 0.1) { return ErrorsOf(p, smallest).largest; }

// Rounding to bfloat16 is off by 2^-9 of a value at most, 1.1e-3 in the root of the mean square. Logits of sums of many
// terms, whose deviation here is 1, are off by 1.6e-3 by Q and K and their weights by as large a share; W, P_w, V and
// each operand of the gradients after them add 1.1e-3: 4e-3 to 6e-3 together. An element's worst error is 4 to 5
// deviations of these, and the largest magnitude 3 to 4 deviations of the result: 1e-2, and more where a few terms
// decide.
inline constexpr double kTolerance = 1.25e-2, kTinyTolerance = 2.5e-2, kMeanTolerance = 7.5e-3;

// Every other query sees one position, query i that of i · 31 modulo m; the others none.
inline void LetQueriesSeeOnePositionOrNone(AttentionProblem& p) {
  const AttentionShape& s = p.call.shape;
  for (int64_t i = 0; i < s.b * s.n; ++i) {
    uint8_t* row = p.attention_mask.data() + i * s.m;
    std::fill_n(row, s.m, uint8_t{0});
    if (i % 2 == 0) row[(i * 31) % s.m] = 1;
  }
}

// A few queries, with those that convolutions read before them, their memory as long as they see, in a buffer with room
// for more: the bits of the same queries among all.
inline void ExpectThatDecodingEqualsTheParallelPass(AttentionShape s) {
  constexpr int64_t kRoom = 96;
  const int64_t positions = s.n;
  s.causality = AttentionCausality::kCausal;
  const AttentionProblem all(s);
  const Floats O = FusedAttention(all).O;
  const int64_t before = s.Convolves() ? s.c_ql + s.c_qw - 2 : 0;
  for (const int64_t wanted : {1, 3, 4}) {
    for (int64_t seen = wanted; seen <= positions; seen += 7) {
      AttentionShape few = s;
      const int64_t n = std::min(seen, wanted + before);
      few.n = n, few.m = seen;
      AttentionProblem p(few);
      const auto rows = [&](const Floats& values, int64_t first, int64_t count, int64_t room) {
        const int64_t size = static_cast<int64_t>(values.size()) / (s.b * positions);
        Floats buffer(s.b * room * size, std::nanf(""));
        for (int64_t b = 0; b < s.b; ++b) {
          std::copy_n(values.data() + (b * positions + first) * size, count * size, buffer.data() + b * room * size);
        }
        return buffer;
      };
      p.P_l = all.P_l, p.P_w = all.P_w;
      p.call.P_l = {p.P_l.data()}, p.call.P_w = {p.P_w.data()};
      p.Q = rows(all.Q, seen - n, n, n), p.call.Q = {p.Q.data(), p.call.Q.stride};
      p.R_Xl = rows(all.R_Xl, seen - n, n, n), p.call.R_Xl = {p.R_Xl.data()};
      p.R_Xw = rows(all.R_Xw, seen - n, n, n), p.call.R_Xw = {p.R_Xw.data()};
      p.F_Xl = rows(all.F_Xl, seen - n, n, n), p.call.F_Xl = {p.F_Xl.data()};
      p.F_Xw = rows(all.F_Xw, seen - n, n, n), p.call.F_Xw = {p.F_Xw.data()};
      const auto memory = [&](const Floats& values, ConstRows& at, Floats& kept) {
        kept = rows(values, 0, seen, kRoom);
        at = {kept.data(), at.stride, kRoom * at.stride};
      };
      memory(all.K, p.call.K, p.K), memory(all.V, p.call.V, p.V);
      memory(all.R_Ml, p.call.R_Ml, p.R_Ml), memory(all.R_Mw, p.call.R_Mw, p.R_Mw);
      memory(all.F_Ml, p.call.F_Ml, p.F_Ml), memory(all.F_Mw, p.call.F_Mw, p.F_Mw);
      const int64_t size = s.h_v * s.d_v;
      Floats few_O(s.b * n * size), row_max(s.b * s.h * n), inv_row_sum(s.b * s.h * n);
      Floats workspace(AttentionForwardWorkspaceBytes(few, 1) / sizeof(float) + 16);
      void* aligned = Aligned(workspace);
      AttentionForward(p.call, {few_O.data(), size}, {row_max.data(), inv_row_sum.data()}, aligned, 1);
      for (int64_t b = 0; b < s.b; ++b) {
        const float* expected = O.data() + (b * positions + seen - wanted) * size;
        EXPECT_TRUE(std::equal(expected, expected + wanted * size, few_O.data() + (b * n + n - wanted) * size))
            << "n=" << wanted << " of " << seen << " positions";
      }
    }
  }
}

// With V and dO the identity O is U as forward has it, and dV is U as backward computes it again.
inline void ExpectForwardsMixedWeightsInBackward(const AttentionShape& s, double dropout) {
  AttentionProblem p(s, {.key_padding = true}, dropout);
  const auto identity = [&](Floats& values, int64_t positions) {
    for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
      values[i] = i % s.d_v == i / (s.h_v * s.d_v) % positions ? 1.0f : 0.0f;
    }
  };
  identity(p.V, s.m);
  identity(p.dO, s.n);
  const AttentionResults<float> r = FusedAttention(p);
  for (int64_t b = 0; b < s.b; ++b) {
    for (int64_t i = 0; i < s.n; ++i) {
      for (int64_t k = 0; k < s.h_v; ++k) {
        for (int64_t j = 0; j < s.m; ++j) {
          ASSERT_EQ(r.O[((b * s.n + i) * s.h_v + k) * s.d_v + j], r.dV[((b * s.m + j) * s.h_v + k) * s.d_v + i])
              << Describe(s) << " i=" << i << " j=" << j;
        }
      }
    }
  }
}

// Every result on each number of threads, SIMD target of a sort, and unit: those of pairs, or those given.
inline void ExpectSameResults(const AttentionProblem& p, const std::vector<std::string>& some_units = {}) {
  for (const std::string bits : {"fma", "no-fma"}) {
    const AttentionResults<float>* expected = nullptr;
    std::vector<AttentionResults<float>> results;
    results.reserve(64);
    for (const std::string& target : SimdTargetsOf(bits)) {
      RestrictSimdTarget(target);
      for (const std::string& unit : some_units.empty() ? SupportedBFloat16Units() : some_units) {
        RestrictBFloat16Unit(unit);
        for (const int threads : {1, 3}) {
          const ThreadsScope scope(threads);
          results.push_back(FusedAttention(p));
          if (expected == nullptr) expected = &results[0];
          AttentionResults<float>::ForEach([&](const char* name, Floats AttentionResults<float>::*member) {
            EXPECT_TRUE(testing::SameBits(results.back().*member, expected->*member))
                << name << " on " << target << ", " << unit << ", " << threads << " threads, "
                << Describe(p.call.shape);
          });
        }
        RestrictBFloat16Unit("");
      }
    }
    RestrictSimdTarget("");
  }
}

}  // namespace crosstalk::kernels
