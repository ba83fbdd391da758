// The fused attention's specification as plain loops in double over the fused kernels' own layouts, and a random
// problem of any shape for both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
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

// Which masks a problem has beside its causality.
struct ProblemMasks {
  bool memory = false, pairs = false;
};

struct AttentionProblem {
  AttentionShape shape;
  Floats Q, K, V, P_l, P_w, R_Xl, R_Ml, R_Xw, R_Mw, bias, bias_table, dO;
  std::vector<int32_t> distance_bucket;
  std::vector<uint8_t> memory_mask, pair_mask;
  AttentionInputs inputs;
  int64_t k_heads, v_heads;  // of K and V as stored

  explicit AttentionProblem(const AttentionShape& s, ProblemMasks masks = {}, double dropout_rate = 0.0) : shape(s) {
    const bool shared = s.memory_heads == MemoryHeads::kShared;
    k_heads = shared ? 1 : s.h_k;
    v_heads = shared ? 1 : s.h_v;
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
    if (s.bias == AttentionBias::kDense) bias = RandomFloats(s.h * s.n * s.m, "bias");
    if (s.bias == AttentionBias::kByDistance) {
      bias_table = RandomFloats(s.h * s.buckets, "table");
      for (int64_t i = 0; i < s.n + s.m - 1; ++i) {
        distance_bucket.push_back(static_cast<int32_t>(std::abs(i - s.n + 1) * 3 % s.buckets));
      }
    }
    const RandomKey coins{.seed = 3, .stream = StreamId("mask"), .step = 0};
    if (masks.memory) {
      // The last third of each row is padding, and the second row is padding altogether.
      for (int64_t b = 0; b < s.b; ++b) {
        for (int64_t j = 0; j < s.m; ++j) memory_mask.push_back(b != 1 && j < s.m - s.m / 3 - b);
      }
    }
    if (masks.pairs) {
      for (int64_t i = 0; i < s.b * s.n; ++i) {
        // Every fifth query sees nothing.
        for (int64_t j = 0; j < s.m; ++j) pair_mask.push_back(i % 5 != 2 && UniformInt(coins, i * s.m + j, 3) > 0);
      }
    }
    const auto pointer = [](const Floats& values) { return values.empty() ? nullptr : values.data(); };
    inputs.Q = {Q.data(), s.h_k * s.d_k};
    inputs.K = {K.data(), k_heads * s.d_k};
    inputs.V = {V.data(), v_heads * s.d_v};
    inputs.P_l = pointer(P_l), inputs.P_w = pointer(P_w);
    inputs.R_Xl = pointer(R_Xl), inputs.R_Xw = pointer(R_Xw);
    inputs.R_Ml = {pointer(R_Ml), s.h_k * s.h}, inputs.R_Mw = {pointer(R_Mw), s.h * s.h_v};
    inputs.bias = pointer(bias), inputs.bias_table = pointer(bias_table);
    inputs.distance_bucket = distance_bucket.empty() ? nullptr : distance_bucket.data();
    inputs.memory_mask = memory_mask.empty() ? nullptr : memory_mask.data();
    inputs.pair_mask = pair_mask.empty() ? nullptr : pair_mask.data();
    inputs.scale = static_cast<float>(1 / std::sqrt(double(s.d_k)));
    inputs.dropout_rate = dropout_rate;
    inputs.dropout_key = {.seed = 11, .stream = 5, .step = 9};
  }
};

// Every result of a forward and a backward call, by name.
template <typename T>
struct AttentionResults {
  std::vector<T> O, dQ, dK, dV, dP_l, dP_w, dR_Xl, dR_Ml, dR_Xw, dR_Mw, dbias, dbias_table;

  template <typename Function>
  static void ForEach(Function f) {
    using R = AttentionResults;
    f("O", &R::O), f("dQ", &R::dQ), f("dK", &R::dK), f("dV", &R::dV), f("dP_l", &R::dP_l), f("dP_w", &R::dP_w);
    f("dR_Xl", &R::dR_Xl), f("dR_Ml", &R::dR_Ml), f("dR_Xw", &R::dR_Xw), f("dR_Mw", &R::dR_Mw);
    f("dbias", &R::dbias), f("dbias_table", &R::dbias_table);
  }

  explicit AttentionResults(const AttentionProblem& p) {
    O.resize(p.dO.size()), dQ.resize(p.Q.size()), dK.resize(p.K.size()), dV.resize(p.V.size());
    dP_l.resize(p.P_l.size()), dP_w.resize(p.P_w.size()), dR_Xl.resize(p.R_Xl.size()), dR_Ml.resize(p.R_Ml.size());
    dR_Xw.resize(p.R_Xw.size()), dR_Mw.resize(p.R_Mw.size());
    dbias.resize(p.bias.size()), dbias_table.resize(p.bias_table.size());
  }
};

inline AttentionResults<double> PlainAttention(const AttentionProblem& p) {
  const AttentionShape& s = p.shape;
  AttentionResults<double> r(p);
  const double scale = p.inputs.scale;
  using Matrix = std::vector<double>;  // [m, heads]
  const auto mixing = [&](const Floats& P, const Floats& RX, const Floats& RM, int64_t b, int64_t i, int64_t j,
                          int64_t a, int64_t c, int64_t h_in, int64_t h_out) {
    double x = 0;
    if (!P.empty()) x += P[a * h_out + c];
    if (!RX.empty()) x += RX[((b * s.n + i) * h_in + a) * h_out + c];
    if (!RM.empty()) x += RM[((b * s.m + j) * h_in + a) * h_out + c];
    if (P.empty() && RX.empty() && RM.empty()) x = a == c;
    return x;
  };
  for (int64_t b = 0; b < s.b; ++b) {
    for (int64_t i = 0; i < s.n; ++i) {
      const int64_t query = b * s.n + i;
      Matrix J(s.m * s.h_k), L(s.m * s.h), W(s.m * s.h), U(s.m * s.h_v), F(s.m * s.h_v, 1.0);
      std::vector<char> attend(s.m, 1);
      for (int64_t j = 0; j < s.m; ++j) {
        if (s.causality == AttentionCausality::kCausal && j > i + s.m - s.n) attend[j] = 0;
        if (!p.memory_mask.empty() && !p.memory_mask[b * s.m + j]) attend[j] = 0;
        if (!p.pair_mask.empty() && !p.pair_mask[query * s.m + j]) attend[j] = 0;
        for (int64_t k = 0; k < s.h_k; ++k) {
          for (int64_t e = 0; e < s.d_k; ++e) {
            J[j * s.h_k + k] += scale * p.Q[(query * s.h_k + k) * s.d_k + e] *
                                p.K[((b * s.m + j) * p.k_heads + k % p.k_heads) * s.d_k + e];
          }
        }
        for (int64_t c = 0; c < s.h; ++c) {
          for (int64_t a = 0; a < s.h_k; ++a) {
            L[j * s.h + c] += J[j * s.h_k + a] * mixing(p.P_l, p.R_Xl, p.R_Ml, b, i, j, a, c, s.h_k, s.h);
          }
          if (!p.bias.empty()) L[j * s.h + c] += p.bias[(c * s.n + i) * s.m + j];
          if (!p.bias_table.empty()) L[j * s.h + c] += p.bias_table[c * s.buckets + p.distance_bucket[j - i + s.n - 1]];
        }
      }
      for (int64_t c = 0; c < s.h; ++c) {
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t j = 0; j < s.m; ++j) {
          if (attend[j]) largest = std::max(largest, L[j * s.h + c]);
        }
        for (int64_t j = 0; j < s.m; ++j) {
          if (attend[j]) sum += W[j * s.h + c] = std::exp(L[j * s.h + c] - largest);
        }
        for (int64_t j = 0; j < s.m; ++j) W[j * s.h + c] = sum > 0 ? W[j * s.h + c] / sum : 0;
      }
      Matrix dU(s.m * s.h_v), dW(s.m * s.h), dL(s.m * s.h), dJ(s.m * s.h_k);
      for (int64_t j = 0; j < s.m; ++j) {
        for (int64_t k = 0; k < s.h_v; ++k) {
          double& u = U[j * s.h_v + k];
          for (int64_t c = 0; c < s.h; ++c) {
            u += W[j * s.h + c] * mixing(p.P_w, p.R_Xw, p.R_Mw, b, i, j, c, k, s.h, s.h_v);
          }
          if (p.inputs.dropout_rate > 0) {
            const auto element = static_cast<uint64_t>(((b * s.h_v + k) * s.n + i) * s.m + j);
            F[j * s.h_v + k] =
                Uniform(p.inputs.dropout_key, element) < p.inputs.dropout_rate ? 0 : 1 / (1 - p.inputs.dropout_rate);
          }
          const double f = F[j * s.h_v + k];
          for (int64_t e = 0; e < s.d_v; ++e) {
            const int64_t o = (query * s.h_v + k) * s.d_v + e;
            const int64_t v = ((b * s.m + j) * p.v_heads + k % p.v_heads) * s.d_v + e;
            r.O[o] += u * f * p.V[v];
            dU[j * s.h_v + k] += f * p.dO[o] * p.V[v];
            r.dV[v] += u * f * p.dO[o];
          }
        }
        for (int64_t c = 0; c < s.h; ++c) {
          for (int64_t k = 0; k < s.h_v; ++k) {
            dW[j * s.h + c] += dU[j * s.h_v + k] * mixing(p.P_w, p.R_Xw, p.R_Mw, b, i, j, c, k, s.h, s.h_v);
            const double g = W[j * s.h + c] * dU[j * s.h_v + k];
            if (s.P_w) r.dP_w[c * s.h_v + k] += g;
            if (s.R_Xw) r.dR_Xw[(query * s.h + c) * s.h_v + k] += g;
            if (s.R_Mw) r.dR_Mw[((b * s.m + j) * s.h + c) * s.h_v + k] += g;
          }
        }
      }
      for (int64_t c = 0; c < s.h; ++c) {
        double D = 0;
        for (int64_t j = 0; j < s.m; ++j) D += W[j * s.h + c] * dW[j * s.h + c];
        for (int64_t j = 0; j < s.m; ++j) {
          const double g = dL[j * s.h + c] = W[j * s.h + c] * (dW[j * s.h + c] - D);
          if (!p.bias.empty()) r.dbias[(c * s.n + i) * s.m + j] += g;
          if (!p.bias_table.empty()) r.dbias_table[c * s.buckets + p.distance_bucket[j - i + s.n - 1]] += g;
        }
      }
      for (int64_t j = 0; j < s.m; ++j) {
        for (int64_t a = 0; a < s.h_k; ++a) {
          for (int64_t c = 0; c < s.h; ++c) {
            dJ[j * s.h_k + a] += dL[j * s.h + c] * mixing(p.P_l, p.R_Xl, p.R_Ml, b, i, j, a, c, s.h_k, s.h);
            const double g = J[j * s.h_k + a] * dL[j * s.h + c];
            if (s.P_l) r.dP_l[a * s.h + c] += g;
            if (s.R_Xl) r.dR_Xl[(query * s.h_k + a) * s.h + c] += g;
            if (s.R_Ml) r.dR_Ml[((b * s.m + j) * s.h_k + a) * s.h + c] += g;
          }
          for (int64_t e = 0; e < s.d_k; ++e) {
            const int64_t q = (query * s.h_k + a) * s.d_k + e;
            const int64_t k = ((b * s.m + j) * p.k_heads + a % p.k_heads) * s.d_k + e;
            r.dQ[q] += scale * dJ[j * s.h_k + a] * p.K[k];
            r.dK[k] += scale * dJ[j * s.h_k + a] * p.Q[q];
          }
        }
      }
    }
  }
  return r;
}

// The fused kernels on the same problem. Everything that they should write starts as NaN.
inline AttentionResults<float> FusedAttention(const AttentionProblem& p) {
  const AttentionShape& s = p.shape;
  AttentionResults<float> r(p);
  AttentionResults<float>::ForEach([&](const char*, Floats AttentionResults<float>::*member) {
    std::fill((r.*member).begin(), (r.*member).end(), std::numeric_limits<float>::quiet_NaN());
  });
  const int threads = NumThreads();
  Floats reference(s.b * s.h * s.n), reciprocal(s.b * s.h * s.n);
  const AttentionStatistics statistics{reference.data(), reciprocal.data()};
  const auto workspace = [&](size_t bytes) {
    // NaN everywhere: nothing may be read before it is written.
    std::vector<float> memory(bytes / sizeof(float) + 32, std::numeric_limits<float>::quiet_NaN());
    return memory;
  };
  const auto aligned = [](Floats& memory) {
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  };
  Floats memory = workspace(AttentionForwardWorkspaceBytes(s, threads));
  AttentionForward(s, p.inputs, {r.O.data(), s.h_v * s.d_v}, statistics, aligned(memory), threads);
  const auto pointer = [](Floats& values) { return values.empty() ? nullptr : values.data(); };
  AttentionGradients out;
  out.dQ = {r.dQ.data(), s.h_k * s.d_k};
  out.dK = {r.dK.data(), p.k_heads * s.d_k};
  out.dV = {r.dV.data(), p.v_heads * s.d_v};
  out.dP_l = pointer(r.dP_l), out.dP_w = pointer(r.dP_w), out.dR_Xl = pointer(r.dR_Xl), out.dR_Ml = pointer(r.dR_Ml);
  out.dR_Xw = pointer(r.dR_Xw), out.dR_Mw = pointer(r.dR_Mw), out.dbias = pointer(r.dbias);
  out.dbias_table = pointer(r.dbias_table);
  Floats more = workspace(AttentionBackwardWorkspaceBytes(s, threads));
  AttentionBackward(s, p.inputs, {r.O.data(), s.h_v * s.d_v}, statistics, {p.dO.data(), s.h_v * s.d_v}, out,
                    aligned(more), threads);
  return r;
}

inline std::string Describe(const AttentionShape& s) {
  return StrCat("b=", s.b, " n=", s.n, " m=", s.m, " h_k=", s.h_k, " h=", s.h, " h_v=", s.h_v, " d_k=", s.d_k,
                " d_v=", s.d_v, s.P_l ? " P_l" : "", s.R_Xl ? " R_Xl" : "", s.R_Ml ? " R_Ml" : "", s.P_w ? " P_w" : "",
                s.R_Xw ? " R_Xw" : "", s.R_Mw ? " R_Mw" : "",
                s.causality == AttentionCausality::kCausal ? " causal" : "");
}

}  // namespace crosstalk::kernels
