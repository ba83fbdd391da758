// The attention family as plain nested loops, forward and backward: the specification that the fast implementations
// are tested against, and an evaluation of the paper's pseudocode that shares no code with them. The layer projects its
// inputs, calls the core (attention_core.h) and projects O. Layouts are the paper's with a leading batch, and so are
// the names; the gradients are derived by hand. Slow by intent.
//
// Dimensions: b batch, n queries, m memory positions; d_X, d_M, d_Y widths; d_k, d_v key and value size; h_k, h, h_v
// heads of keys, softmax, values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "crosstalk/kernels/reference/attention_core.h"

namespace crosstalk::kernels::reference {

// A layer's inputs. The kind follows from those present: P_q, P_k and P_o (P_v too, unless V = K); or P and Q; or
// none of them, plain dot-product attention. Also the type of the gradients, where `mask` and `multiplier` stay absent.
template <typename T>
struct AttentionInputs {
  Array<T> X;           // [b, n, d_X]
  Array<T> M;           // [b, m, d_M]; self-attention: a copy of X
  Array<T> P_q;         // [d_X, d_k, h_k]
  Array<T> P_k;         // [d_M, d_k, h_k]
  Array<T> P_v;         // [d_M, d_v, h_v]; absent beside P_q: V = K
  Array<T> P_o;         // [d_Y, d_v, h_v]
  Array<T> P_l;         // [h_k, h]
  Array<T> P_w;         // [h, h_v]
  Array<T> P_Xl;        // [d_X, h_k, h]
  Array<T> P_Ml;        // [d_M, h_k, h]
  Array<T> P_Xw;        // [d_X, h, h_v]
  Array<T> P_Mw;        // [d_M, h, h_v]
  Array<T> P;           // [d_X, d_M, h]
  Array<T> Q;           // [d_M, d_Y, h]
  Array<T> bias;        // [h, n, m]
  Array<uint8_t> mask;  // [b, n, m], 1 = attend
  Array<T> multiplier;  // [b, n, m, h_v]: dropout, 0 or 1/(1 - rate)
  T scale = T(1);       // J is multiplied by it
};

// Every tensor of the pseudocode. Without projections, and bilinear, Q, K, V hold the tensors used instead: M has
// one head then, which all softmax heads share.
template <typename T>
struct AttentionValues : CoreValues<T> {
  CoreInputs<T> core;  // Q, K, V, R_Xl, R_Ml, R_Xw, R_Mw
  Array<T> Y;          // [b, n, d_Y]
};

// R[b, i, a, c] = Σ_d S[b, i, d] · P[d, a, c]: every projection is one of these.
template <typename T>
Array<T> Project(const Array<T>& S, const Array<T>& P) {
  if (!P.present()) return {};
  Array<T> R({S.size(0), S.size(1), P.size(1), P.size(2)});
  for (int64_t b = 0; b < S.size(0); ++b)
    for (int64_t i = 0; i < S.size(1); ++i)
      for (int64_t a = 0; a < P.size(1); ++a)
        for (int64_t c = 0; c < P.size(2); ++c)
          for (int64_t d = 0; d < S.size(2); ++d) R(b, i, a, c) += S(b, i, d) * P(d, a, c);
  return R;
}

// dS += Σ_ac dR · P;  dP += Σ_bi S · dR.
template <typename T>
void ProjectBackward(const Array<T>& S, const Array<T>& P, const Array<T>& dR, Array<T>& dS, Array<T>& dP) {
  if (!P.present()) return;
  for (int64_t b = 0; b < S.size(0); ++b)
    for (int64_t i = 0; i < S.size(1); ++i)
      for (int64_t a = 0; a < P.size(1); ++a)
        for (int64_t c = 0; c < P.size(2); ++c)
          for (int64_t d = 0; d < S.size(2); ++d) {
            dS(b, i, d) += dR(b, i, a, c) * P(d, a, c);
            dP(d, a, c) += S(b, i, d) * dR(b, i, a, c);
          }
}

// S[b, i, d] as [b, i, d, 1]: one head.
template <typename T>
Array<T> OneHead(const Array<T>& S) {
  Array<T> result({S.size(0), S.size(1), S.size(2), 1});
  result.values() = S.values();
  return result;
}

// P_o[d_Y, d_v, h_v] of any kind that has one: bilinear's Q[d_M, d_Y, h] plays its part.
template <typename T>
Array<T> OutputProjection(const AttentionInputs<T>& in) {
  if (!in.Q.present()) return in.P_o;
  Array<T> P_o({in.Q.size(1), in.Q.size(0), in.Q.size(2)});
  for (int64_t e = 0; e < in.Q.size(0); ++e)
    for (int64_t y = 0; y < in.Q.size(1); ++y)
      for (int64_t h = 0; h < in.Q.size(2); ++h) P_o(y, e, h) = in.Q(e, y, h);
  return P_o;
}

template <typename T>
AttentionValues<T> AttentionForward(const AttentionInputs<T>& in) {
  const bool bilinear = in.P.present();
  const bool projected = in.P_q.present();
  AttentionValues<T> v;
  v.core.Q = projected ? Project(in.X, in.P_q) : bilinear ? Project(in.X, in.P) : OneHead(in.X);
  v.core.K = projected ? Project(in.M, in.P_k) : OneHead(in.M);
  v.core.V = in.P_v.present() ? Project(in.M, in.P_v) : v.core.K;
  v.core.R_Xl = Project(in.X, in.P_Xl);
  v.core.R_Ml = Project(in.M, in.P_Ml);
  v.core.R_Xw = Project(in.X, in.P_Xw);
  v.core.R_Mw = Project(in.M, in.P_Mw);
  v.core.P_l = in.P_l, v.core.P_w = in.P_w;
  v.core.bias = in.bias, v.core.mask = in.mask, v.core.multiplier = in.multiplier, v.core.scale = in.scale;
  static_cast<CoreValues<T>&>(v) = CoreForward(v.core);

  // Y[b, n, d_Y] = Σ_dv,hv O · P_o; without projections Y = O
  const int64_t B = in.X.size(0), N = in.X.size(1);
  const Array<T> P_o = OutputProjection(in);
  const int64_t D_Y = P_o.present() ? P_o.size(0) : v.O.size(2);
  v.Y = Array<T>({B, N, D_Y});
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t y = 0; y < D_Y; ++y) {
        if (!P_o.present()) {
          v.Y(b, n, y) = v.O(b, n, y, int64_t{0});
          continue;
        }
        for (int64_t d = 0; d < P_o.size(1); ++d)
          for (int64_t k = 0; k < P_o.size(2); ++k) v.Y(b, n, y) += v.O(b, n, d, k) * P_o(y, d, k);
      }
  return v;
}

// dY[b, n, d_Y] → the gradient of every input that is present (dX and dM apart, in self-attention too), each the
// inverse of one step of AttentionForward, last step first.
template <typename T>
AttentionInputs<T> AttentionBackward(const AttentionInputs<T>& in, const AttentionValues<T>& v, const Array<T>& dY) {
  const int64_t B = in.X.size(0), N = in.X.size(1);
  AttentionInputs<T> d;
  d.X = Array<T>(in.X.sizes());
  d.M = Array<T>(in.M.sizes());
  for (Array<T> AttentionInputs<T>::*p :
       {&AttentionInputs<T>::P_q, &AttentionInputs<T>::P_k, &AttentionInputs<T>::P_v, &AttentionInputs<T>::P_o,
        &AttentionInputs<T>::P_Xl, &AttentionInputs<T>::P_Ml, &AttentionInputs<T>::P_Xw, &AttentionInputs<T>::P_Mw,
        &AttentionInputs<T>::P, &AttentionInputs<T>::Q}) {
    if ((in.*p).present()) d.*p = Array<T>((in.*p).sizes());
  }

  // Y = Σ O · P_o:  dO = Σ_y dY · P_o,  dP_o = Σ_bn dY · O
  const Array<T> P_o = OutputProjection(in);
  Array<T> dO(v.O.sizes());
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t y = 0; y < dY.size(2); ++y) {
        if (!P_o.present()) {
          dO(b, n, y, int64_t{0}) = dY(b, n, y);
          continue;
        }
        for (int64_t e = 0; e < P_o.size(1); ++e)
          for (int64_t k = 0; k < P_o.size(2); ++k) {
            dO(b, n, e, k) += dY(b, n, y) * P_o(y, e, k);
            (in.Q.present() ? d.Q(e, y, k) : d.P_o(y, e, k)) += dY(b, n, y) * v.O(b, n, e, k);
          }
      }

  const CoreInputs<T> core = CoreBackward<T>(v.core, v, dO);
  d.P_l = core.P_l, d.P_w = core.P_w, d.bias = core.bias;

  // The projections, and what stands in their place.
  ProjectBackward(in.X, in.P_Xl, core.R_Xl, d.X, d.P_Xl);
  ProjectBackward(in.M, in.P_Ml, core.R_Ml, d.M, d.P_Ml);
  ProjectBackward(in.X, in.P_Xw, core.R_Xw, d.X, d.P_Xw);
  ProjectBackward(in.M, in.P_Mw, core.R_Mw, d.M, d.P_Mw);
  Array<T> dK = core.K;
  if (in.P_v.present()) {
    ProjectBackward(in.M, in.P_v, core.V, d.M, d.P_v);
  } else {  // V = K
    for (size_t i = 0; i < dK.values().size(); ++i) dK.values()[i] += core.V.values()[i];
  }
  if (in.P_q.present()) {
    ProjectBackward(in.X, in.P_q, core.Q, d.X, d.P_q);
    ProjectBackward(in.M, in.P_k, dK, d.M, d.P_k);
  } else {
    for (size_t i = 0; i < dK.values().size(); ++i) d.M.values()[i] += dK.values()[i];
    if (in.P.present()) {
      ProjectBackward(in.X, in.P, core.Q, d.X, d.P);
    } else {
      for (size_t i = 0; i < core.Q.values().size(); ++i) d.X.values()[i] += core.Q.values()[i];
    }
  }
  return d;
}

}  // namespace crosstalk::kernels::reference
