// 3. The paper as code: its pseudocode (Talking-Heads Attention, 2020, sections 3.3, 4, 6 and Appendix A), with the
// equations as they stand there. Then two of its claims, checked: talking heads with identity projections are
// multi-head attention, and talking heads are general bilinear attention with composed tensors. Expected output:
//
//   multi-head, talking heads with P_l = P_w = I:      largest difference 0.0e+00
//   talking heads, general bilinear:                   largest difference 5.6e-16
//   dynamic projections of zeros, talking heads:       largest difference 0.0e+00
//
// (What is not 0 is rounding, and may differ between machines.)
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/runtime/random.h"

using namespace crosstalk;  // an example may

namespace {

// X[n, d_X] queries, M[m, d_M] memory; h_k, h, h_v heads of keys, softmax and values.
struct Parameters {
  Variable P_q, P_k;  // [d_X, d_k, h_k], [d_M, d_k, h_k]
  Variable P_v, P_o;  // [d_M, d_v, h_v], [d_Y, d_v, h_v]
  Variable P_l, P_w;  // [h_k, h], [h, h_v]
};

// Section 3.3.
Variable MultiHeadAttention(const Variable& X, const Variable& M, const Parameters& p) {
  Variable Q = Einsum("Q[n, d_k, h] = einsum(X[n, d_X], P_q[d_X, d_k, h])    # queries  h*n*d_X*d_k", {X, p.P_q});
  Variable K = Einsum("K[m, d_k, h] = einsum(M[m, d_M], P_k[d_M, d_k, h])    # keys     h*m*d_M*d_k", {M, p.P_k});
  Variable V = Einsum("V[m, d_v, h] = einsum(M[m, d_M], P_v[d_M, d_v, h])    # values   h*m*d_M*d_v", {M, p.P_v});
  Variable L = Einsum("L[n, m, h]   = einsum(Q[n, d_k, h], K[m, d_k, h])     # logits   h*n*m*d_k", {Q, K});
  Variable W = Softmax(L, 1);  // reduced_dim=m
  Variable O = Einsum("O[n, d_v, h] = einsum(W[n, m, h], V[m, d_v, h])       # h*n*m*d_v", {W, V});
  return Einsum("Y[n, d_Y] = einsum(O[n, d_v, h], P_o[d_Y, d_v, h])          # output   h*n*d_Y*d_v", {O, p.P_o});
}

// Section 4.
Variable TalkingHeadsAttention(const Variable& X, const Variable& M, const Parameters& p) {
  Variable Q = Einsum("Q[n, d_k, h_k] = einsum(X[n, d_X], P_q[d_X, d_k, h_k])", {X, p.P_q});
  Variable K = Einsum("K[m, d_k, h_k] = einsum(M[m, d_M], P_k[d_M, d_k, h_k])", {M, p.P_k});
  Variable V = Einsum("V[m, d_v, h_v] = einsum(M[m, d_M], P_v[d_M, d_v, h_v])", {M, p.P_v});
  Variable J = Einsum("J[n, m, h_k] = einsum(Q[n, d_k, h_k], K[m, d_k, h_k])   # dot prod.", {Q, K});
  Variable L = Einsum("L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h])          # talking-heads proj.", {J, p.P_l});
  Variable W = Softmax(L, 1);
  Variable U = Einsum("U[n, m, h_v] = einsum(W[n, m, h], P_w[h, h_v])          # talking-heads proj.", {W, p.P_w});
  Variable O = Einsum("O[n, d_v, h_v] = einsum(U[n, m, h_v], V[m, d_v, h_v])", {U, V});
  return Einsum("Y[n, d_Y] = einsum(O[n, d_v, h_v], P_o[d_Y, d_v, h_v])", {O, p.P_o});
}

// Section 6.
Variable GeneralBilinearMultiheadAttention(const Variable& X, const Variable& M, const Variable& P, const Variable& Q) {
  Variable L = Einsum("L[n, m, h] = einsum(X[n, d_X], M[m, d_M], P[d_X, d_M, h])", {X, M, P});
  Variable W = Softmax(L, 1);
  return Einsum("Y[n, d_Y] = einsum(W[n, m, h], M[m, d_M], Q[d_M, d_Y, h])", {W, M, Q});
}

Variable TalkingHeadsAttentionInefficient(const Variable& X, const Variable& M, const Parameters& p) {
  Variable P =
      Einsum("P[d_X, d_M, h] = einsum(P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k], P_l[h_k, h])", {p.P_q, p.P_k, p.P_l});
  Variable Q =
      Einsum("Q[d_M, d_Y, h] = einsum(P_v[d_M, d_v, h_v], P_o[d_Y, d_v, h_v], P_w[h, h_v])", {p.P_v, p.P_o, p.P_w});
  return GeneralBilinearMultiheadAttention(X, M, P, Q);
}

// Appendix A, with two letters corrected: R_Ml and R_Mw have a memory position m, and P_Mw reads d_M.
struct Generators {
  Variable P_Xl, P_Ml;  // [d_X, h_k, h], [d_M, h_k, h]
  Variable P_Xw, P_Mw;  // [d_X, h, h_v], [d_M, h, h_v]
};
Variable DynamicProjections(const Variable& X, const Variable& M, const Parameters& p, const Generators& g) {
  Variable Q = Einsum("Q[n, d_k, h_k] = einsum(X[n, d_X], P_q[d_X, d_k, h_k])", {X, p.P_q});
  Variable K = Einsum("K[m, d_k, h_k] = einsum(M[m, d_M], P_k[d_M, d_k, h_k])", {M, p.P_k});
  Variable V = Einsum("V[m, d_v, h_v] = einsum(M[m, d_M], P_v[d_M, d_v, h_v])", {M, p.P_v});
  Variable J = Einsum("J[n, m, h_k] = einsum(Q[n, d_k, h_k], K[m, d_k, h_k])", {Q, K});
  Variable R_Xl = Einsum("R_Xl[n, h_k, h] = einsum(X[n, d_X], P_Xl[d_X, h_k, h])", {X, g.P_Xl});
  Variable R_Ml = Einsum("R_Ml[m, h_k, h] = einsum(M[m, d_M], P_Ml[d_M, h_k, h])", {M, g.P_Ml});
  Variable L = Einsum("L[n, m, h] = einsum(J[n, m, h_k], P_l[h_k, h])", {J, p.P_l}) +
               Einsum("L[n, m, h] = einsum(J[n, m, h_k], R_Xl[n, h_k, h])", {J, R_Xl}) +
               Einsum("L[n, m, h] = einsum(J[n, m, h_k], R_Ml[m, h_k, h])", {J, R_Ml});
  Variable W = Softmax(L, 1);
  Variable R_Xw = Einsum("R_Xw[n, h, h_v] = einsum(X[n, d_X], P_Xw[d_X, h, h_v])", {X, g.P_Xw});
  Variable R_Mw = Einsum("R_Mw[m, h, h_v] = einsum(M[m, d_M], P_Mw[d_M, h, h_v])", {M, g.P_Mw});
  Variable U = Einsum("U[n, m, h_v] = einsum(W[n, m, h], P_w[h, h_v])", {W, p.P_w}) +
               Einsum("U[n, m, h_v] = einsum(W[n, m, h], R_Xw[n, h, h_v])", {W, R_Xw}) +
               Einsum("U[n, m, h_v] = einsum(W[n, m, h], R_Mw[m, h, h_v])", {W, R_Mw});
  Variable O = Einsum("O[n, d_v, h_v] = einsum(U[n, m, h_v], V[m, d_v, h_v])", {U, V});
  return Einsum("Y[n, d_Y] = einsum(O[n, d_v, h_v], P_o[d_Y, d_v, h_v])", {O, p.P_o});
}

Variable Random(const char* name, const Shape& shape, double stddev) {
  Tensor tensor = Tensor::Empty(shape, DType::kFloat64);
  FillNormal(tensor, {.seed = 1, .stream = StreamId(name)}, 0, stddev);
  return Variable(tensor);
}

Variable Identity(int64_t size) {
  Tensor identity = Tensor::Zeros({size, size}, DType::kFloat64);
  for (int64_t i = 0; i < size; ++i) identity.Select(0, i).Slice(0, i, i + 1).Fill(1);
  return Variable(identity);
}

// Prints the line, and says whether the two are equal to rounding.
bool Compare(const char* what, const Variable& a, const Variable& b) {
  const double difference = std::max(Max(a - b).value().Item(), Max(b - a).value().Item());
  std::printf("%-50s largest difference %.1e\n", what, difference);
  return difference < 1e-13;
}

}  // namespace

int main() {
  constexpr int64_t n = 5, m = 7, d_X = 9, d_M = 11, d_Y = 13, d_k = 3, d_v = 4, h_k = 6, h = 8, h_v = 10;
  const Variable X = Random("X", {n, d_X}, 1), M = Random("M", {m, d_M}, 1);

  Parameters multi_head = {.P_q = Random("P_q", {d_X, d_k, h}, 1 / std::sqrt(d_X * d_k)),
                           .P_k = Random("P_k", {d_M, d_k, h}, 1 / std::sqrt(d_M)),
                           .P_v = Random("P_v", {d_M, d_v, h}, 1 / std::sqrt(d_M)),
                           .P_o = Random("P_o", {d_Y, d_v, h}, 1 / std::sqrt(h * d_v)),
                           .P_l = Identity(h),
                           .P_w = Identity(h)};
  Parameters talking = {.P_q = Random("P_q", {d_X, d_k, h_k}, 1 / std::sqrt(d_X * d_k)),
                        .P_k = Random("P_k", {d_M, d_k, h_k}, 1 / std::sqrt(d_M)),
                        .P_v = Random("P_v", {d_M, d_v, h_v}, 1 / std::sqrt(d_M)),
                        .P_o = Random("P_o", {d_Y, d_v, h_v}, 1 / std::sqrt(h_v * d_v)),
                        .P_l = Random("P_l", {h_k, h}, 1 / std::sqrt(h_k)),
                        .P_w = Random("P_w", {h, h_v}, 1 / std::sqrt(h))};
  const Generators zeros = {.P_Xl = Random("", {d_X, h_k, h}, 0),
                            .P_Ml = Random("", {d_M, h_k, h}, 0),
                            .P_Xw = Random("", {d_X, h, h_v}, 0),
                            .P_Mw = Random("", {d_M, h, h_v}, 0)};

  bool equal = Compare("multi-head, talking heads with P_l = P_w = I:", MultiHeadAttention(X, M, multi_head),
                       TalkingHeadsAttention(X, M, multi_head));
  equal &= Compare("talking heads, general bilinear:", TalkingHeadsAttention(X, M, talking),
                   TalkingHeadsAttentionInefficient(X, M, talking));
  equal &= Compare("dynamic projections of zeros, talking heads:", DynamicProjections(X, M, talking, zeros),
                   TalkingHeadsAttention(X, M, talking));
  return equal ? 0 : 1;
}
