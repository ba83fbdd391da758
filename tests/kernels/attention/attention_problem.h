// A random attention problem of any shape and kind, its results by the fused kernels and by their specification,
// kernels/reference/attention.h, in double.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/reference/attention.h"
#include "crosstalk/runtime/check.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {

using Floats = std::vector<float>;
using Sizes = std::vector<int64_t>;
using Core = reference::CoreInputs<double>;

inline AttentionShape Shape(int64_t b, int64_t n, int64_t m, int64_t h_k, int64_t h, int64_t h_v, int64_t d_k,
                            int64_t d_v) {
  return {.b = b, .n = n, .m = m, .h_k = h_k, .h = h, .h_v = h_v, .d_k = d_k, .d_v = d_v};
}

// One of the family.
struct Kind {
  const char* name;
  bool P_l, P_w, dynamic, multi_query, factors = false, convolved = false;
};
inline constexpr Kind kKinds[] = {
    {"multi-head", false, false, false, false},
    {"logits", true, false, false, false},
    {"weights", false, true, false, false},
    {"talking", true, true, false, false},
    {"dynamic", true, true, true, false},
    {"dynamic without P", false, false, true, false},
    {"bilinear", false, false, false, true},
    {"factors", false, false, false, false, true},
    {"convolved", true, true, false, false, false, true},
    {"convolved without P", false, false, false, false, false, true},
};
enum KindIndex { kMultiHeadKind, kLogitsKind, kWeightsKind, kTalkingKind, kDynamicKind, kDynamicWithoutPKind };

// `s` with its numbers of heads equal where nothing mixes them.
inline AttentionShape WithEqualHeads(AttentionShape s) {
  if (!s.MixesLogits() || s.F_Xl) s.h_k = s.h;
  if (!s.MixesWeights() || s.F_Xw) s.h_v = s.h;
  return s;
}

inline AttentionShape Convolved(AttentionShape s, int64_t c_ql, int64_t c_kl, int64_t c_qw, int64_t c_kw) {
  s.c_ql = c_ql, s.c_kl = c_kl, s.c_qw = c_qw, s.c_kw = c_kw;
  return s;
}

// `sizes` of a kind, with as many heads of each sort as it can have.
inline AttentionShape OfKind(const Kind& kind, AttentionShape s) {
  s.P_l = kind.P_l, s.P_w = kind.P_w;
  s.R_Xl = s.R_Ml = s.R_Xw = s.R_Mw = kind.dynamic;
  s.F_Xl = s.F_Ml = s.F_Xw = s.F_Mw = kind.factors;
  if (kind.multi_query) s.g_k = s.g_v = 1;
  s = WithEqualHeads(s);
  return kind.convolved ? Convolved(s, 3, 5, 4, 2) : s;
}
inline AttentionShape Talking(const AttentionShape& s) { return OfKind(kKinds[kTalkingKind], s); }
inline AttentionShape Grouped(AttentionShape s, int64_t g_k, int64_t g_v,
                              KeySharing sharing = KeySharing::kConsecutive) {
  s.g_k = g_k, s.g_v = g_v, s.key_sharing = sharing;
  return s;
}

inline AttentionShape Windowed(AttentionShape s, int64_t window) {
  s.causality = AttentionCausality::kCausal;
  s.window = window;
  return s;
}

// TEST_P(Suite, …) runs once for each of kKinds.
#define CROSSTALK_ATTENTION_TEST(Suite) \
  class Suite : public ::testing::TestWithParam<Kind> {}; \
  INSTANTIATE_TEST_SUITE_P(AllKinds, Suite, ::testing::ValuesIn(kKinds), \
                           [](const auto& info) { return TestName(info.param); })

// Its letters, for GoogleTest's names.
inline std::string TestName(const Kind& kind) {
  std::string name = kind.name;
  std::erase_if(name, [](char c) { return std::isalpha(c) == 0; });
  return name;
}

// f(operand, its name, its field in the reference) for each; the table of a bias has none.
template <typename F>
void ForEachOperand(const F& f) {
  static constexpr std::pair<const char*, reference::Array<double> Core::*> kNames[kAttentionOperands] = {
      {"Q", &Core::Q},          {"K", &Core::K},       {"V", &Core::V},       {"P_l", &Core::P_l},
      {"P_w", &Core::P_w},      {"R_Xl", &Core::R_Xl}, {"R_Ml", &Core::R_Ml}, {"R_Xw", &Core::R_Xw},
      {"R_Mw", &Core::R_Mw},    {"F_Xl", &Core::F_Xl}, {"F_Ml", &Core::F_Ml}, {"F_Xw", &Core::F_Xw},
      {"F_Mw", &Core::F_Mw},    {"bias", &Core::bias}, {"table", nullptr},    {"conv_l", &Core::conv_l},
      {"conv_w", &Core::conv_w}};
  for (int i = 0; i < kAttentionOperands; ++i) f(static_cast<AttentionOperand>(i), kNames[i].first, kNames[i].second);
}

// The sizes of each operand that the shape has, as the kernels store it.
inline AttentionOperands<Sizes> SizesOf(const AttentionShape& s) {
  const auto where = [](bool there, Sizes sizes) { return there ? sizes : Sizes(); };
  return {.Q = {s.b, s.n, s.h_k, s.d_k},
          .K = {s.b, s.m, s.g_k > 0 ? s.g_k : s.h_k, s.d_k},
          .V = {s.b, s.m, s.g_v > 0 ? s.g_v : s.h_v, s.d_v},
          .P_l = where(s.P_l, {s.h_k, s.h}),
          .P_w = where(s.P_w, {s.h, s.h_v}),
          .R_Xl = where(s.R_Xl, {s.b, s.n, s.h_k, s.h}),
          .R_Ml = where(s.R_Ml, {s.b, s.m, s.h_k, s.h}),
          .R_Xw = where(s.R_Xw, {s.b, s.n, s.h, s.h_v}),
          .R_Mw = where(s.R_Mw, {s.b, s.m, s.h, s.h_v}),
          .F_Xl = where(s.F_Xl, {s.b, s.n, kMixingFactors, s.h}),
          .F_Ml = where(s.F_Ml, {s.b, s.m, kMixingFactors, s.h}),
          .F_Xw = where(s.F_Xw, {s.b, s.n, kMixingFactors, s.h}),
          .F_Mw = where(s.F_Mw, {s.b, s.m, kMixingFactors, s.h}),
          .bias = where(s.bias == AttentionBias::kDense, {s.h, s.n, s.m}),
          .bias_table = where(s.bias == AttentionBias::kRelativePosition, {s.h, s.buckets}),
          .conv_l = where(s.c_ql > 0, {s.c_ql, s.c_kl, s.h_k}),
          .conv_w = where(s.c_qw > 0, {s.c_qw, s.c_kw, s.h})};
}
inline int64_t CountOf(const Sizes& sizes, size_t first = 0) {
  int64_t count = sizes.empty() ? 0 : 1;
  for (size_t i = first; i < sizes.size(); ++i) count *= sizes[i];
  return count;
}
// Elements of one position of Q, K, V or a mixing.
inline int64_t RowOf(const Sizes& sizes) { return CountOf(sizes, 2); }

// Standard deviation that leaves sums over an operand's elements of size 1.
inline double SpreadOf(std::string_view name, const AttentionShape& s) {
  const bool logits = name.ends_with('l');
  switch (name[0]) {
    case 'P':
    case 'R':
      return 1 / std::sqrt(double(logits ? s.h_k : s.h));
    case 'F':
      return std::pow(double(s.h), -0.25);  // of rows and columns, whose products are a matrix
    case 'c':
      return 1 / std::sqrt(double(logits ? s.c_ql * s.c_kl : s.c_qw * s.c_kw));
    default:
      return 1;
  }
}

// Which masks a problem has beside its causality.
struct ProblemMasks {
  bool key_padding = false, attention = false;
};

struct AttentionProblem {
  AttentionOperands<Sizes> sizes;
  AttentionOperands<Floats> in;
  Floats dO;
  std::vector<int32_t> distance_bucket;
  std::vector<uint8_t> key_padding_mask, attention_mask;
  AttentionCall call;  // of the above

  explicit AttentionProblem(const AttentionShape& s, ProblemMasks masks = {}, double dropout_rate = 0.0)
      : sizes(SizesOf(s)), dO(RandomValues<float>(s.b * s.n * s.h_v * s.d_v, "dO")) {
    ForEachOperand([&](AttentionOperand i, const char* name, auto) {
      in[i] = RandomValues<float>(CountOf(sizes[i]), name, SpreadOf(name, s));
    });
    for (int64_t i = 0; s.bias == AttentionBias::kRelativePosition && i < s.n + s.m - 1; ++i) {
      distance_bucket.push_back(static_cast<int32_t>(std::abs(i - s.n + 1) * 3 % s.buckets));
    }
    // The last third of each row is padding, and the second row is padding altogether.
    for (int64_t i = 0; masks.key_padding && i < s.b * s.m; ++i) {
      key_padding_mask.push_back(i / s.m != 1 && i % s.m < s.m - s.m / 3 - i / s.m);
    }
    // Every fifth query sees nothing.
    const RandomKey coins{.seed = 3, .stream = StreamId("mask"), .step = 0};
    for (int64_t i = 0; masks.attention && i < s.b * s.n * s.m; ++i) {
      attention_mask.push_back(i / s.m % 5 != 2 && UniformInt(coins, static_cast<uint64_t>(i), 3) > 0);
    }
    call.shape = s;
    call.left_l = s.c_kl / 2, call.left_w = std::max<int64_t>(0, s.c_kw - 1);
    call.scale = static_cast<float>(1 / std::sqrt(double(s.d_k)));
    call.dropout_rate = dropout_rate;
    call.dropout_key = {.seed = 11, .stream = 5, .step = 9};
    Bind();
  }
  AttentionProblem(const AttentionProblem& p)
      : sizes(p.sizes),
        in(p.in),
        dO(p.dO),
        distance_bucket(p.distance_bucket),
        key_padding_mask(p.key_padding_mask),
        attention_mask(p.attention_mask),
        call(p.call) {
    Bind();
  }
  AttentionProblem& operator=(const AttentionProblem&) = delete;

  // The call reads what the members hold.
  void Bind() {
    ForEachOperand([&](AttentionOperand i, const char*, auto) {
      call[i] = in[i].empty() ? ConstRows() : ConstRows(in[i].data(), RowOf(sizes[i]));
    });
    const auto pointer = [](const auto& values) { return values.empty() ? nullptr : values.data(); };
    call.distance_bucket = pointer(distance_bucket);
    call.key_padding_mask = pointer(key_padding_mask);
    call.attention_mask = pointer(attention_mask);
  }
  // The place in bias_table for head h, query i and memory position j.
  int64_t BiasTableIndex(int64_t h, int64_t i, int64_t j) const {
    return h * call.shape.buckets + distance_bucket[j - i + call.shape.n - 1];
  }
};

// Every result of a forward and a backward call.
template <typename T>
struct AttentionResults {
  std::vector<T> O;
  AttentionOperands<std::vector<T>> d;

  explicit AttentionResults(const AttentionProblem& p, T value = T(0)) : O(p.dO.size(), value) {
    ForEachOperand([&](AttentionOperand i, const char*, auto) { d[i].assign(p.in[i].size(), value); });
  }
};
// f(name, of one, of the other)
template <typename A, typename B, typename F>
void ForEachResult(const AttentionResults<A>& a, const AttentionResults<B>& b, const F& f) {
  f(std::string("O"), a.O, b.O);
  ForEachOperand([&](AttentionOperand i, const char* name, auto) { f(StrCat("d", name), a.d[i], b.d[i]); });
}

// values[outer, heads, size] as [outer, size, heads]: the kernels keep a head's elements together, the paper all
// heads'.
template <typename From>
std::vector<double> SwapHeads(const std::vector<From>& values, int64_t heads, int64_t size) {
  std::vector<double> swapped(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i), head = at / size % heads, e = at % size;
    swapped[static_cast<size_t>(at - head * size - e + e * heads + head)] = static_cast<double>(values[i]);
  }
  return swapped;
}
inline bool HasHeadsLast(AttentionOperand i) { return i <= AttentionOperand::kV; }

// The problem in the reference's terms: causality and both masks as one, a relative position bias spread out.
inline Core ReferenceInputs(const AttentionProblem& p) {
  const AttentionShape& s = p.call.shape;
  Core in;
  ForEachOperand([&](AttentionOperand i, const char*, reference::Array<double> Core::*field) {
    Sizes sizes = p.sizes[i];
    if (field == nullptr || sizes.empty()) return;
    if (HasHeadsLast(i)) std::swap(sizes[2], sizes[3]);
    in.*field = reference::Array<double>(sizes);
    (in.*field).values() = HasHeadsLast(i) ? SwapHeads(p.in[i], sizes[3], sizes[2]) : ToDouble(p.in[i]);
  });
  in.left_l = p.call.left_l, in.left_w = p.call.left_w;
  in.scale = p.call.scale;
  in.key_pairs = s.key_sharing == KeySharing::kPairs;
  if (s.bias == AttentionBias::kRelativePosition) in.bias = reference::Array<double>({s.h, s.n, s.m});
  for (int64_t at = 0; s.bias == AttentionBias::kRelativePosition && at < s.h * s.n * s.m; ++at) {
    in.bias.values()[at] = p.in.bias_table[p.BiasTableIndex(at / (s.n * s.m), at / s.m % s.n, at % s.m)];
  }
  in.mask = reference::Array<uint8_t>({s.b, s.n, s.m}, 1);
  for (int64_t at = 0; at < s.b * s.n * s.m; ++at) {
    const int64_t b = at / (s.n * s.m), i = at / s.m % s.n, j = at % s.m;
    const bool passed = s.window > 0 && j <= i + s.m - s.n - s.window;
    const bool in_future = s.causality == AttentionCausality::kCausal && j > i + s.m - s.n;
    const bool is_padding = !p.key_padding_mask.empty() && !p.key_padding_mask[b * s.m + j];
    in.mask.values()[at] = !in_future && !passed && !is_padding && (p.attention_mask.empty() || p.attention_mask[at]);
  }
  const double rate = p.call.dropout_rate;
  if (rate > 0) in.multiplier = reference::Array<double>({s.b, s.n, s.m, s.h_v});
  for (int64_t at = 0; rate > 0 && at < s.b * s.h_v * s.n * s.m; ++at) {
    in.multiplier(at / (s.h_v * s.n * s.m), at / s.m % s.n, at % s.m, at / (s.n * s.m) % s.h_v) =
        Uniform(p.call.dropout_key, static_cast<uint64_t>(at)) < rate ? 0 : 1 / (1 - rate);
  }
  return in;
}

inline AttentionResults<double> ReferenceAttention(const AttentionProblem& p) {
  const AttentionShape& s = p.call.shape;
  const Core in = ReferenceInputs(p);
  const reference::CoreValues<double> values = reference::CoreForward(in);
  reference::Array<double> dO({s.b, s.n, s.d_v, s.h_v});
  dO.values() = SwapHeads(p.dO, s.h_v, s.d_v);
  const Core d = reference::CoreBackward(in, values, dO);
  AttentionResults<double> r(p);
  r.O = SwapHeads(values.O.values(), s.d_v, s.h_v);  // the way back
  ForEachOperand([&](AttentionOperand i, const char*, reference::Array<double> Core::*field) {
    if (field == nullptr || r.d[i].empty()) return;
    const std::vector<double>& values_of = (d.*field).values();
    r.d[i] = HasHeadsLast(i) ? SwapHeads(values_of, p.sizes[i][3], p.sizes[i][2]) : values_of;
  });
  for (int64_t at = 0; s.bias == AttentionBias::kRelativePosition && at < s.h * s.n * s.m; ++at) {
    r.d.bias_table[p.BiasTableIndex(at / (s.n * s.m), at / s.m % s.n, at % s.m)] += d.bias.values()[at];
  }
  return r;
}

// A workspace of so many bytes, aligned, whose every float is NaN: nothing may be read before it is written.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : memory_(bytes / sizeof(float) + 32, std::numeric_limits<float>::quiet_NaN()) {}
  void* data() { return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64); }

 private:
  Floats memory_;
};

enum class WantedResults { kAll, kInputs };   // kInputs: dQ, dK and dV alone, which are always written
enum class Logits { kKept, kComputedAgain };  // kKept: from forward to backward, where KeptLogits says that this pays

// The fused kernels on the same problem. Everything that they should write starts as NaN.
inline AttentionResults<float> FusedAttention(const AttentionProblem& p, WantedResults wanted = WantedResults::kAll,
                                              Logits logits = Logits::kKept) {
  const AttentionShape& s = p.call.shape;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  AttentionResults<float> r(p, kNaN);
  const int threads = NumThreads();
  Floats row_max(s.b * s.h * s.n), inv_row_sum(s.b * s.h * s.n), L(logits == Logits::kKept ? KeptLogits(s) : 0, kNaN);
  const SoftmaxStats stats{row_max.data(), inv_row_sum.data(), L.empty() ? nullptr : L.data()};
  AttentionForward(p.call, {r.O.data(), s.h_v * s.d_v}, stats,
                   Workspace(AttentionForwardWorkspaceBytes(s, threads)).data(), threads);
  AttentionGradients out;
  ForEachOperand([&](AttentionOperand i, const char*, auto) {
    if (r.d[i].empty() || (wanted == WantedResults::kInputs && i > AttentionOperand::kV)) return;
    out[i] = {r.d[i].data(), RowOf(p.sizes[i])};
  });
  AttentionBackward(p.call, {r.O.data(), s.h_v * s.d_v}, stats, {p.dO.data(), s.h_v * s.d_v}, out,
                    Workspace(AttentionBackwardWorkspaceBytes(s, threads)).data(), threads);
  return r;
}

inline std::string Describe(const AttentionShape& s) {
  std::string text = StrCat("b=", s.b, " n=", s.n, " m=", s.m, " h_k=", s.h_k, " h=", s.h, " h_v=", s.h_v,
                            " d_k=", s.d_k, " d_v=", s.d_v, " g_k=", s.g_k, " g_v=", s.g_v,
                            " pairs=", int(s.key_sharing), " bias=", int(s.bias), " bfloat16=", int(s.precision),
                            s.causality == AttentionCausality::kCausal ? " causal" : "", " window=", s.window);
  ForEachOperand([&, sizes = SizesOf(s)](AttentionOperand i, const char* name, auto) {
    if (i > AttentionOperand::kV && !sizes[i].empty()) text += StrCat(" ", name);
  });
  return text;
}

inline void ExpectSameBits(const AttentionResults<float>& actual, const AttentionResults<float>& expected,
                           const std::string& what) {
  ForEachResult(actual, expected, [&](const std::string& name, const Floats& a, const Floats& b) {
    EXPECT_TRUE(SameBits(a, b)) << name << ", " << what;
  });
}

// f(b, query, head, position, weight by forward, by backward): with V and dO the identity (d_v = n = m at least) O is U
// as forward has it, and dV is U as backward computes it again.
template <typename F>
void ForWeightsOfBothPasses(AttentionProblem& p, const F& f) {
  const AttentionShape& s = p.call.shape;
  const auto identity = [&](Floats& values, int64_t positions) {
    for (int64_t i = 0; i < std::ssize(values); ++i) {
      values[i] = i % s.d_v == i / (s.h_v * s.d_v) % positions ? 1.0f : 0.0f;
    }
  };
  identity(p.in.V, s.m);
  identity(p.dO, s.n);
  const AttentionResults<float> r = FusedAttention(p);
  for (int64_t b = 0; b < s.b; ++b) {
    for (int64_t i = 0; i < s.n; ++i) {
      for (int64_t k = 0; k < s.h_v; ++k) {
        for (int64_t j = 0; j < s.m; ++j) {
          f(b, i, k, j, r.O[((b * s.n + i) * s.h_v + k) * s.d_v + j], r.d.V[((b * s.m + j) * s.h_v + k) * s.d_v + i]);
        }
      }
    }
  }
}

}  // namespace crosstalk::kernels
