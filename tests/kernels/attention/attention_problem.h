// A random attention problem of any shape, and its results by the fused kernels and by their specification,
// kernels/reference/attention.h, in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/reference/attention.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk::kernels {

using Floats = std::vector<float>;

inline Floats RandomFloats(int64_t count, const char* name, double stddev = 1.0) {
  Floats values(static_cast<size_t>(count));
  const RandomKey key{.seed = 7, .stream = StreamId(name), .step = 0};
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(stddev * Normal(key, static_cast<uint64_t>(i)));
  return values;
}

inline AttentionShape Shape(int64_t b, int64_t n, int64_t m, int64_t h_k, int64_t h, int64_t h_v, int64_t d_k,
                            int64_t d_v) {
  AttentionShape s;
  s.b = b, s.n = n, s.m = m, s.h_k = h_k, s.h = h, s.h_v = h_v, s.d_k = d_k, s.d_v = d_v;
  return s;
}

inline AttentionShape Talking(AttentionShape s) {
  s.P_l = s.P_w = true;
  return s;
}

// Which masks a problem has beside its causality.
struct ProblemMasks {
  bool key_padding = false, attention = false;
};

struct AttentionProblem {
  Floats Q, K, V, P_l, P_w, R_Xl, R_Ml, R_Xw, R_Mw, F_Xl, F_Ml, F_Xw, F_Mw, conv_l, conv_w, bias, bias_table, dO;
  std::vector<int32_t> distance_bucket;
  std::vector<uint8_t> key_padding_mask, attention_mask;
  AttentionCall call;        // of the above
  int64_t k_heads, v_heads;  // of K and V as stored

  // Of bias_table, for head h, query i and memory position j.
  int64_t BiasTableIndex(int64_t h, int64_t i, int64_t j) const {
    return h * call.shape.buckets + distance_bucket[j - i + call.shape.n - 1];
  }

  explicit AttentionProblem(const AttentionShape& s, ProblemMasks masks = {}, double dropout_rate = 0.0) {
    const bool shared = s.kv_heads == KvHeads::kMultiQuery;
    const bool grouped = s.kv_heads == KvHeads::kGrouped;
    k_heads = shared ? 1 : grouped ? s.g : s.h_k;
    v_heads = shared ? 1 : grouped ? s.g : s.h_v;
    Q = RandomFloats(s.b * s.n * s.h_k * s.d_k, "Q");
    K = RandomFloats(s.b * s.m * k_heads * s.d_k, "K");
    V = RandomFloats(s.b * s.m * v_heads * s.d_v, "V");
    dO = RandomFloats(s.b * s.n * s.h_v * s.d_v, "dO");
    const double mix_k = 1 / std::sqrt(double(s.h_k)), mix_h = 1 / std::sqrt(double(s.h));
    if (s.P_l) P_l = RandomFloats(s.h_k * s.h, "P_l", mix_k);
    if (s.P_w) P_w = RandomFloats(s.h * s.h_v, "P_w", mix_h);
    if (s.R_Xl) R_Xl = RandomFloats(s.b * s.n * s.h_k * s.h, "R_Xl", mix_k);
    if (s.R_Ml) R_Ml = RandomFloats(s.b * s.m * s.h_k * s.h, "R_Ml", mix_k);
    if (s.R_Xw) R_Xw = RandomFloats(s.b * s.n * s.h * s.h_v, "R_Xw", mix_h);
    if (s.R_Mw) R_Mw = RandomFloats(s.b * s.m * s.h * s.h_v, "R_Mw", mix_h);
    const double factor = std::sqrt(mix_h);  // of rows and columns, whose products are a matrix
    if (s.F_Xl) F_Xl = RandomFloats(s.b * s.n * 5 * s.h, "F_Xl", factor);
    if (s.F_Ml) F_Ml = RandomFloats(s.b * s.m * 5 * s.h, "F_Ml", factor);
    if (s.F_Xw) F_Xw = RandomFloats(s.b * s.n * 5 * s.h, "F_Xw", factor);
    if (s.F_Mw) F_Mw = RandomFloats(s.b * s.m * 5 * s.h, "F_Mw", factor);
    if (s.c_ql > 0) conv_l = RandomFloats(s.c_ql * s.c_kl * s.h_k, "conv_l", 1 / std::sqrt(double(s.c_ql * s.c_kl)));
    if (s.c_qw > 0) conv_w = RandomFloats(s.c_qw * s.c_kw * s.h, "conv_w", 1 / std::sqrt(double(s.c_qw * s.c_kw)));
    if (s.bias == AttentionBias::kDense) bias = RandomFloats(s.h * s.n * s.m, "bias");
    if (s.bias == AttentionBias::kRelativePosition) {
      bias_table = RandomFloats(s.h * s.buckets, "table");
      for (int64_t i = 0; i < s.n + s.m - 1; ++i) {
        distance_bucket.push_back(static_cast<int32_t>(std::abs(i - s.n + 1) * 3 % s.buckets));
      }
    }
    const RandomKey coins{.seed = 3, .stream = StreamId("mask"), .step = 0};
    if (masks.key_padding) {
      // The last third of each row is padding, and the second row is padding altogether.
      for (int64_t b = 0; b < s.b; ++b) {
        for (int64_t j = 0; j < s.m; ++j) key_padding_mask.push_back(b != 1 && j < s.m - s.m / 3 - b);
      }
    }
    if (masks.attention) {
      for (int64_t i = 0; i < s.b * s.n; ++i) {
        // Every fifth query sees nothing.
        for (int64_t j = 0; j < s.m; ++j) attention_mask.push_back(i % 5 != 2 && UniformInt(coins, i * s.m + j, 3) > 0);
      }
    }
    const auto pointer = [](const Floats& values) { return values.empty() ? nullptr : values.data(); };
    call.shape = s;
    call.Q = {Q.data(), s.h_k * s.d_k};
    call.K = {K.data(), k_heads * s.d_k};
    call.V = {V.data(), v_heads * s.d_v};
    call.P_l = {pointer(P_l)}, call.P_w = {pointer(P_w)};
    call.R_Xl = {pointer(R_Xl)}, call.R_Xw = {pointer(R_Xw)};
    call.R_Ml = {pointer(R_Ml), s.h_k * s.h}, call.R_Mw = {pointer(R_Mw), s.h * s.h_v};
    call.F_Xl = {pointer(F_Xl)}, call.F_Xw = {pointer(F_Xw)};
    call.F_Ml = {pointer(F_Ml), 5 * s.h}, call.F_Mw = {pointer(F_Mw), 5 * s.h};
    call.conv_l = {pointer(conv_l)}, call.conv_w = {pointer(conv_w)};
    call.left_l = s.c_kl / 2, call.left_w = std::max<int64_t>(0, s.c_kw - 1);
    call.bias = {pointer(bias)}, call.bias_table = {pointer(bias_table)};
    call.distance_bucket = distance_bucket.empty() ? nullptr : distance_bucket.data();
    call.key_padding_mask = key_padding_mask.empty() ? nullptr : key_padding_mask.data();
    call.attention_mask = attention_mask.empty() ? nullptr : attention_mask.data();
    call.scale = static_cast<float>(1 / std::sqrt(double(s.d_k)));
    call.dropout_rate = dropout_rate;
    call.dropout_key = {.seed = 11, .stream = 5, .step = 9};
  }
};

// Every result of a forward and a backward call, by name.
template <typename T>
struct AttentionResults {
  std::vector<T> O, dQ, dK, dV, dP_l, dP_w, dR_Xl, dR_Ml, dR_Xw, dR_Mw, dF_Xl, dF_Ml, dF_Xw, dF_Mw, dconv_l, dconv_w,
      dbias, dbias_table;

  template <typename Function>
  static void ForEach(Function f) {
    using R = AttentionResults;
    f("O", &R::O), f("dQ", &R::dQ), f("dK", &R::dK), f("dV", &R::dV), f("dP_l", &R::dP_l), f("dP_w", &R::dP_w);
    f("dR_Xl", &R::dR_Xl), f("dR_Ml", &R::dR_Ml), f("dR_Xw", &R::dR_Xw), f("dR_Mw", &R::dR_Mw);
    f("dF_Xl", &R::dF_Xl), f("dF_Ml", &R::dF_Ml), f("dF_Xw", &R::dF_Xw), f("dF_Mw", &R::dF_Mw);
    f("dconv_l", &R::dconv_l), f("dconv_w", &R::dconv_w), f("dbias", &R::dbias), f("dbias_table", &R::dbias_table);
  }

  explicit AttentionResults(const AttentionProblem& p) {
    O.resize(p.dO.size()), dQ.resize(p.Q.size()), dK.resize(p.K.size()), dV.resize(p.V.size());
    dP_l.resize(p.P_l.size()), dP_w.resize(p.P_w.size()), dR_Xl.resize(p.R_Xl.size()), dR_Ml.resize(p.R_Ml.size());
    dR_Xw.resize(p.R_Xw.size()), dR_Mw.resize(p.R_Mw.size());
    dF_Xl.resize(p.F_Xl.size()), dF_Ml.resize(p.F_Ml.size());
    dF_Xw.resize(p.F_Xw.size()), dF_Mw.resize(p.F_Mw.size());
    dconv_l.resize(p.conv_l.size()), dconv_w.resize(p.conv_w.size());
    dbias.resize(p.bias.size()), dbias_table.resize(p.bias_table.size());
  }
};

// values[outer, heads, size] as [outer, size, heads]: the kernels keep a head's elements together, the paper all
// heads'.
template <typename T, typename From>
std::vector<T> SwapHeads(const std::vector<From>& values, int64_t heads, int64_t size) {
  std::vector<T> swapped(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i), head = at / size % heads, e = at % size;
    swapped[static_cast<size_t>(at - head * size - e + e * heads + head)] = static_cast<T>(values[i]);
  }
  return swapped;
}

// Absent where there are no values.
template <typename From>
reference::Array<double> ToArray(std::vector<int64_t> sizes, const std::vector<From>& values) {
  if (values.empty()) return {};
  reference::Array<double> array(std::move(sizes));
  array.values().assign(values.begin(), values.end());
  return array;
}

// The problem in the reference's terms: causality and both masks as one, a relative position bias spread out.
inline reference::CoreInputs<double> ReferenceInputs(const AttentionProblem& p) {
  const AttentionShape& s = p.call.shape;
  reference::CoreInputs<double> in;
  in.Q = ToArray({s.b, s.n, s.d_k, s.h_k}, SwapHeads<double>(p.Q, s.h_k, s.d_k));
  in.K = ToArray({s.b, s.m, s.d_k, p.k_heads}, SwapHeads<double>(p.K, p.k_heads, s.d_k));
  in.V = ToArray({s.b, s.m, s.d_v, p.v_heads}, SwapHeads<double>(p.V, p.v_heads, s.d_v));
  in.P_l = ToArray({s.h_k, s.h}, p.P_l);
  in.P_w = ToArray({s.h, s.h_v}, p.P_w);
  in.R_Xl = ToArray({s.b, s.n, s.h_k, s.h}, p.R_Xl);
  in.R_Ml = ToArray({s.b, s.m, s.h_k, s.h}, p.R_Ml);
  in.R_Xw = ToArray({s.b, s.n, s.h, s.h_v}, p.R_Xw);
  in.R_Mw = ToArray({s.b, s.m, s.h, s.h_v}, p.R_Mw);
  in.F_Xl = ToArray({s.b, s.n, 5, s.h}, p.F_Xl);
  in.F_Ml = ToArray({s.b, s.m, 5, s.h}, p.F_Ml);
  in.F_Xw = ToArray({s.b, s.n, 5, s.h}, p.F_Xw);
  in.F_Mw = ToArray({s.b, s.m, 5, s.h}, p.F_Mw);
  in.conv_l = ToArray({s.c_ql, s.c_kl, s.h_k}, p.conv_l);
  in.conv_w = ToArray({s.c_qw, s.c_kw, s.h}, p.conv_w);
  in.left_l = p.call.left_l, in.left_w = p.call.left_w;
  in.bias = ToArray({s.h, s.n, s.m}, p.bias);
  in.scale = p.call.scale;
  if (!p.bias_table.empty()) {
    in.bias = reference::Array<double>({s.h, s.n, s.m});
    for (int64_t h = 0; h < s.h; ++h) {
      for (int64_t i = 0; i < s.n; ++i) {
        for (int64_t j = 0; j < s.m; ++j) in.bias(h, i, j) = p.bias_table[p.BiasTableIndex(h, i, j)];
      }
    }
  }
  in.mask = reference::Array<uint8_t>({s.b, s.n, s.m}, 1);
  for (int64_t b = 0; b < s.b; ++b) {
    for (int64_t i = 0; i < s.n; ++i) {
      for (int64_t j = 0; j < s.m; ++j) {
        const bool in_future = s.causality == AttentionCausality::kCausal && j > i + s.m - s.n;
        const bool is_padding = !p.key_padding_mask.empty() && !p.key_padding_mask[b * s.m + j];
        const bool is_masked = !p.attention_mask.empty() && !p.attention_mask[(b * s.n + i) * s.m + j];
        in.mask(b, i, j) = !in_future && !is_padding && !is_masked;
      }
    }
  }
  const double rate = p.call.dropout_rate;
  if (rate > 0) {
    in.multiplier = reference::Array<double>({s.b, s.n, s.m, s.h_v});
    for (int64_t b = 0; b < s.b; ++b) {
      for (int64_t k = 0; k < s.h_v; ++k) {
        for (int64_t i = 0; i < s.n; ++i) {
          for (int64_t j = 0; j < s.m; ++j) {
            const auto element = static_cast<uint64_t>(((b * s.h_v + k) * s.n + i) * s.m + j);
            in.multiplier(b, i, j, k) = Uniform(p.call.dropout_key, element) < rate ? 0 : 1 / (1 - rate);
          }
        }
      }
    }
  }
  return in;
}

inline AttentionResults<double> ReferenceAttention(const AttentionProblem& p) {
  const AttentionShape& s = p.call.shape;
  const reference::CoreInputs<double> in = ReferenceInputs(p);
  const reference::CoreValues<double> values = reference::CoreForward(in);
  const reference::Array<double> dO = ToArray({s.b, s.n, s.d_v, s.h_v}, SwapHeads<double>(p.dO, s.h_v, s.d_v));
  const reference::CoreInputs<double> d = reference::CoreBackward(in, values, dO);
  AttentionResults<double> r(p);
  // The way back: [outer, size, heads] as [outer, heads, size].
  r.O = SwapHeads<double>(values.O.values(), s.d_v, s.h_v);
  r.dQ = SwapHeads<double>(d.Q.values(), s.d_k, s.h_k);
  r.dK = SwapHeads<double>(d.K.values(), s.d_k, p.k_heads);
  r.dV = SwapHeads<double>(d.V.values(), s.d_v, p.v_heads);
  r.dP_l = d.P_l.values(), r.dP_w = d.P_w.values();
  r.dR_Xl = d.R_Xl.values(), r.dR_Ml = d.R_Ml.values(), r.dR_Xw = d.R_Xw.values(), r.dR_Mw = d.R_Mw.values();
  r.dF_Xl = d.F_Xl.values(), r.dF_Ml = d.F_Ml.values(), r.dF_Xw = d.F_Xw.values(), r.dF_Mw = d.F_Mw.values();
  r.dconv_l = d.conv_l.values(), r.dconv_w = d.conv_w.values();
  if (!p.bias.empty()) r.dbias = d.bias.values();
  if (!p.bias_table.empty()) {
    for (int64_t h = 0; h < s.h; ++h) {
      for (int64_t i = 0; i < s.n; ++i) {
        for (int64_t j = 0; j < s.m; ++j) r.dbias_table[p.BiasTableIndex(h, i, j)] += d.bias(h, i, j);
      }
    }
  }
  return r;
}

// A workspace in 15 floats more.
inline void* Aligned(Floats& memory) {
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
}

// kInputs: dQ, dK and dV alone, which are always written.
enum class WantedResults { kAll, kInputs };

// kKept: from forward to backward, where KeptLogits says that this pays.
enum class Logits { kKept, kComputedAgain };

// The fused kernels on the same problem. Everything that they should write starts as NaN.
inline AttentionResults<float> FusedAttention(const AttentionProblem& p, WantedResults wanted = WantedResults::kAll,
                                              Logits logits = Logits::kKept) {
  const AttentionShape& s = p.call.shape;
  AttentionResults<float> r(p);
  AttentionResults<float>::ForEach([&](const char*, Floats AttentionResults<float>::*member) {
    std::fill((r.*member).begin(), (r.*member).end(), std::numeric_limits<float>::quiet_NaN());
  });
  const int threads = NumThreads();
  Floats row_max(s.b * s.h * s.n), inv_row_sum(s.b * s.h * s.n);
  Floats L(logits == Logits::kKept ? KeptLogits(s) : 0, std::numeric_limits<float>::quiet_NaN());
  const SoftmaxStats stats{row_max.data(), inv_row_sum.data(), L.empty() ? nullptr : L.data()};
  const auto workspace = [&](size_t bytes) {
    // NaN everywhere: nothing may be read before it is written.
    std::vector<float> memory(bytes / sizeof(float) + 32, std::numeric_limits<float>::quiet_NaN());
    return memory;
  };
  Floats memory = workspace(AttentionForwardWorkspaceBytes(s, threads));
  AttentionForward(p.call, {r.O.data(), s.h_v * s.d_v}, stats, Aligned(memory), threads);
  const auto pointer = [](Floats& values) { return values.empty() ? nullptr : values.data(); };
  AttentionGradients out;
  out.Q = {r.dQ.data(), s.h_k * s.d_k};
  out.K = {r.dK.data(), p.k_heads * s.d_k};
  out.V = {r.dV.data(), p.v_heads * s.d_v};
  if (wanted == WantedResults::kAll) {
    out.P_l = {pointer(r.dP_l)}, out.P_w = {pointer(r.dP_w)}, out.R_Xl = {pointer(r.dR_Xl)};
    out.R_Ml = {pointer(r.dR_Ml)}, out.R_Xw = {pointer(r.dR_Xw)}, out.R_Mw = {pointer(r.dR_Mw)};
    out.F_Xl = {pointer(r.dF_Xl)}, out.F_Ml = {pointer(r.dF_Ml)};
    out.F_Xw = {pointer(r.dF_Xw)}, out.F_Mw = {pointer(r.dF_Mw)};
    out.conv_l = {pointer(r.dconv_l)}, out.conv_w = {pointer(r.dconv_w)};
    out.bias = {pointer(r.dbias)}, out.bias_table = {pointer(r.dbias_table)};
  }
  Floats more = workspace(AttentionBackwardWorkspaceBytes(s, threads));
  AttentionBackward(p.call, {r.O.data(), s.h_v * s.d_v}, stats, {p.dO.data(), s.h_v * s.d_v}, out, Aligned(more),
                    threads);
  return r;
}

inline std::string Describe(const AttentionShape& s) {
  return StrCat("b=", s.b, " n=", s.n, " m=", s.m, " h_k=", s.h_k, " h=", s.h, " h_v=", s.h_v, " d_k=", s.d_k,
                " d_v=", s.d_v, s.P_l ? " P_l" : "", s.R_Xl ? " R_Xl" : "", s.R_Ml ? " R_Ml" : "", s.P_w ? " P_w" : "",
                s.R_Xw ? " R_Xw" : "", s.R_Mw ? " R_Mw" : "", s.F_Xl ? " F_l" : "", s.F_Xw ? " F_w" : "",
                s.c_ql > 0 ? StrCat(" conv_l ", s.c_ql, "x", s.c_kl) : "",
                s.c_qw > 0 ? StrCat(" conv_w ", s.c_qw, "x", s.c_kw) : "",
                s.causality == AttentionCausality::kCausal ? " causal" : "");
}

}  // namespace crosstalk::kernels
