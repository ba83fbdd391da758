// What a solution includes: arrays, the functions that the exercises ask for, and EXERCISE, which hands one to the
// checker. A file of exercises that use the library's own operations includes library_exercise.h as well.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "crosstalk/runtime/visibility.h"
#include "examples/course/checker/array.h"

namespace course {

// What an exercise throws until it is done.
class Unsolved : public std::runtime_error {
 public:
  explicit Unsolved(const std::string& id) : std::runtime_error("exercise " + id + " is still to be done") {}
};

using AnyFunction = void (*)();
CROSSTALK_PUBLIC bool Register(const char* id, const char* file, AnyFunction function);

// ---- What the exercises ask for; each stub says what its arguments are ----

using Names = std::vector<std::string>;
using Signature_1_1 = std::vector<int64_t>(const std::vector<int64_t>& sizes);
using Signature_1_2 = Array(const Array& O, const Array& P_o);
using Signature_1_3 = Array(const Names& result, const Array& a, const Names& of_a, const Array& b, const Names& of_b);

struct ProjectionGradients {
  Array dX, dP_q;
};
using Signature_1_4 = ProjectionGradients(const Array& X, const Array& P_q, const Array& dQ);

struct PairGradients {
  double dx = 0, dy = 0;
};
using Signature_2_1 = PairGradients(double x, double y);

// A node of a tape: what made it, of which earlier nodes (their places on the tape).
struct Node {
  enum Kind { kLeaf, kAdd, kMultiply, kExp } kind = kLeaf;
  std::vector<int> inputs;
  double value = 0;
};
using Signature_2_2 = std::vector<double>(const std::vector<Node>& tape);

using Function = double (*)(const std::vector<double>& x);
using Signature_2_3 = std::vector<double>(Function f, const std::vector<double>& x, double step);

using Signature_3_1 = Array(const Array& Q, const Array& K, double scale);
using Signature_3_2 = Array(const Array& J, const Array& V);
struct WeightedSumGradients {
  Array dW, dV;
};
using Signature_3_3 = WeightedSumGradients(const Array& W, const Array& V, const Array& dO);
struct AttentionGradients {
  Array dQ, dK, dV;
};
using Signature_3_4 = AttentionGradients(const Array& Q, const Array& K, const Array& V, double scale, const Array& dO);

using Signature_4_1 = std::vector<double>(const std::vector<double>& x);
using Signature_4_2 = Array(const Array& L, const Array& mask);
using Signature_4_3 = Array(const Array& W, const Array& dW);
// The softmax of a row so far, whose weights multiply values: after some chunks of it.
struct RunningRow {
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;         // of e^(L - max)
  std::vector<double> O;  // Σ e^(L - max) · V[·, d_v]
};
using Signature_4_4 = void(const std::vector<double>& L, const Array& V, RunningRow& row);

using Signature_5_1 = Array(const Array& J, const Array& P_l);
using Signature_5_2 = Array(const Array& Q, const Array& K, const Array& V, const Array& P_l, const Array& P_w,
                            const Array& mask, double scale);
struct TalkingGradients {
  Array dQ, dK, dV, dP_l, dP_w;
};
using Signature_5_3 = TalkingGradients(const Array& Q, const Array& K, const Array& V, const Array& P_l,
                                       const Array& P_w, double scale, const Array& dO);
using Signature_5_4 = Array(const Array& P_q, const Array& P_k, const Array& P_l);
using Signature_5_5 = Array(const Array& J, const Array& P_l, const Array& X, const Array& M, const Array& P_Xl,
                            const Array& P_Ml);

struct LayerSizes {
  int64_t n = 0, m = 0, h_k = 0, h = 0, h_v = 0, d_k = 0, d_v = 0;
};
using Signature_6_1 = int64_t(const LayerSizes& sizes);
// Where a kernel reads a memory too large to hold: a chunk of positions at a time.
class Chunks {
 public:
  virtual ~Chunks() = default;
  virtual int64_t count() const = 0;
  virtual Array K(int64_t chunk) = 0;  // [j, d_k, h_k], j positions of the memory
  virtual Array V(int64_t chunk) = 0;  // [j, d_v, h_v]
};
using Signature_6_2 = Array(const Array& Q, Chunks& memory, const Array& P_l, const Array& P_w, double scale);
// Rows of floats. Heads stand before their size: Q[b, n, h_k, d_k], K[b, m, h_k, d_k], V[b, m, h_v, d_v].
struct KernelCall {
  int64_t b, n, m, h_k, h, h_v, d_k, d_v;
  float scale;
  bool causal;                    // query i sees the memory positions j ≤ i + m - n
  const unsigned char* key_mask;  // [b, m], 1 = attend; null: everywhere
  const float *Q, *K, *V;         // as above
  const float *P_l, *P_w;         // [h_k, h], [h, h_v]
};
struct KernelGradients {
  float *Q, *K, *V, *P_l, *P_w;  // of the shapes of what they are the gradients of; to be overwritten
};
using Signature_6_3 = void(const KernelCall* call, float* O);  // O[b, n, h_v, d_v]
using Signature_6_4 = void(const KernelCall* call, const float* dO, const KernelGradients* gradients);

struct LossAndGradient {
  double loss = 0;
  Array dlogits;  // [rows, classes]
};
using Signature_7_1 = LossAndGradient(const Array& logits, const std::vector<int64_t>& targets);
struct AdamState {
  std::vector<double> p, m, v;  // parameters, their first and second moments
};
struct AdamSettings {
  double learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  int64_t step = 1;  // this one, from 1
};
using Signature_7_2 = void(const std::vector<double>& gradient, const AdamSettings& settings, AdamState& state);
using Signature_7_4 = std::vector<double>(const Array& W);

struct Cache {
  std::vector<std::vector<double>> K, V;  // of each position so far: [h·d_k], [h·d_v], head after head
};
using Signature_8_1 = std::vector<double>(const std::vector<double>& q, const std::vector<double>& k,
                                          const std::vector<double>& v, int64_t heads, Cache& cache);
using Signature_8_2 = int64_t(const LayerSizes& sizes, bool dynamic);
// What a decoder with dynamic projections keeps of each position, beside its keys.
struct MixingCache {
  std::vector<Array> K;     // of each position: [d_k, h_k]
  std::vector<Array> R_Ml;  // of each position: [h_k, h]
};
using Signature_8_3 = Array(const Array& x, const Array& P_q, const Array& P_k, const Array& P_l, const Array& P_Ml,
                            MixingCache& cache);

}  // namespace course

// At the end of a solution: EXERCISE(5_2, MyFunction). Wrong arguments are an error of compilation.
#define EXERCISE(id, function) \
  [[maybe_unused]] static const bool registered_##id = ::course::Register( \
      #id, __FILE__, reinterpret_cast<::course::AnyFunction>(static_cast<::course::Signature_##id*>(&function)))
