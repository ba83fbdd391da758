// The core of attention as plain nested loops, forward and backward: from Q, K, V and the R to O, as in
// kernels/attention/attention.h. attention.h projects around it. Layouts are the paper's with a leading batch, and so
// are the names; the gradients are derived by hand. Slow by intent.
//
// Dimensions: b batch, n queries, m memory positions; d_k, d_v key and value size; h_k, h, h_v heads of keys, softmax,
// values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "crosstalk/kernels/rows.h"

namespace crosstalk::kernels::reference {

// A row-major array of rank ≤ 4 that owns its elements. Rank 0 means an absent tensor.
template <typename T>
class Array {
 public:
  Array() = default;
  explicit Array(std::vector<int64_t> sizes, T value = T(0)) : sizes_(std::move(sizes)) {
    int64_t count = 1;
    for (const int64_t size : sizes_) count *= size;
    values_.assign(count, value);
  }

  bool present() const { return !sizes_.empty(); }
  int64_t size(int dim) const { return sizes_[dim]; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  std::vector<T>& values() & { return values_; }
  const std::vector<T>& values() const& { return values_; }
  std::vector<T> values() && { return std::move(values_); }

  template <typename... Index>
  T& operator()(Index... index) {
    return values_[Offset(index...)];
  }
  template <typename... Index>
  const T& operator()(Index... index) const {
    return values_[Offset(index...)];
  }

 private:
  template <typename... Index>
  int64_t Offset(Index... index) const {
    int64_t offset = 0;
    int dim = 0;
    ((offset = offset * sizes_[dim++] + index), ...);
    return offset;
  }

  std::vector<int64_t> sizes_;
  std::vector<T> values_;
};

// The core's inputs. Also the type of its gradients, where `mask` and `multiplier` stay absent.
template <typename T>
struct CoreInputs {
  Array<T> Q;              // [b, n, d_k, h_k]
  Array<T> K;              // [b, m, d_k, h_k]; or fewer heads, each of which as many share
  Array<T> V;              // [b, m, d_v, h_v]; or fewer
  bool key_pairs = false;  // pairs of heads share pairs of K's fewer heads
  Array<T> P_l;            // [h_k, h]
  Array<T> P_w;            // [h, h_v]
  Array<T> R_Xl;           // [b, n, h_k, h]
  Array<T> R_Ml;           // [b, m, h_k, h]
  Array<T> R_Xw;           // [b, n, h, h_v]
  Array<T> R_Mw;           // [b, m, h, h_v]
  Array<T> F_Xl;           // [b, n, 5, h]: factors of one more R_Xl
  Array<T> F_Ml;           // [b, m, 5, h]
  Array<T> F_Xw;           // [b, n, 5, h]
  Array<T> F_Mw;           // [b, m, 5, h]
  Array<T> conv_l;         // [c_ql, c_kl, h_k]
  Array<T> conv_w;         // [c_qw, c_kw, h]
  Array<T> bias;           // [h, n, m]
  Array<uint8_t> mask;     // [b, n, m], 1 = attend
  Array<T> multiplier;     // [b, n, m, h_v]: dropout, 0 or 1/(1 - rate)
  T scale = T(1);          // J is multiplied by it
  int64_t left_l = 0, left_w = 0;
};

// The head of K that head k of Q reads.
template <typename T>
int64_t KeyHeadOf(const CoreInputs<T>& in, int64_t k) {
  const int64_t readers = in.Q.size(3) / in.K.size(3), together = in.key_pairs && readers > 1 ? 2 : 1;
  return k / together / readers * together + k % together;
}

template <typename T>
struct CoreValues {
  Array<T> J;  // [b, n, m, h_k]
  Array<T> C;  // conv(J), or J
  Array<T> L;  // [b, n, m, h]
  Array<T> W;  // [b, n, m, h]
  Array<T> Y;  // conv(W), or W
  Array<T> U;  // [b, n, m, h_v], after dropout
  Array<T> O;  // [b, n, d_v, h_v]
};

// B[b, n, m, c] += Σ_a A[b, n, m, a] · R(b, n, m, a, c), and its gradients; `R` says which matrix mixes the heads of
// a pair: the same for all, the query's or the memory position's.
enum class MixedBy { kStatic, kQuery, kMemory };

template <typename T>
const T& MixingWeight(const Array<T>& R, MixedBy by, int64_t b, int64_t n, int64_t m, int64_t a, int64_t c) {
  if (by == MixedBy::kStatic) return R(a, c);
  return R(b, by == MixedBy::kQuery ? n : m, a, c);
}

template <typename T>
void Mix(const Array<T>& A, const Array<T>& R, MixedBy by, Array<T>& B) {
  if (!R.present()) return;
  for (int64_t b = 0; b < A.size(0); ++b)
    for (int64_t n = 0; n < A.size(1); ++n)
      for (int64_t m = 0; m < A.size(2); ++m)
        for (int64_t a = 0; a < A.size(3); ++a)
          for (int64_t c = 0; c < B.size(3); ++c) B(b, n, m, c) += A(b, n, m, a) * MixingWeight(R, by, b, n, m, a, c);
}

template <typename T>
void MixBackward(const Array<T>& A, const Array<T>& R, MixedBy by, const Array<T>& dB, Array<T>& dA, Array<T>& dR) {
  if (!R.present()) return;
  if (!dR.present()) dR = Array<T>(R.sizes());
  for (int64_t b = 0; b < A.size(0); ++b)
    for (int64_t n = 0; n < A.size(1); ++n)
      for (int64_t m = 0; m < A.size(2); ++m)
        for (int64_t a = 0; a < A.size(3); ++a)
          for (int64_t c = 0; c < dB.size(3); ++c) {
            dA(b, n, m, a) += dB(b, n, m, c) * MixingWeight(R, by, b, n, m, a, c);
            const_cast<T&>(MixingWeight(dR, by, b, n, m, a, c)) += A(b, n, m, a) * dB(b, n, m, c);
          }
}

// R[b, i, s, t] = F[0, s]·F[2, t] + F[1, s]·F[3, t] + δ_st·F[4, s], and its gradients.
template <typename T>
Array<T> MatricesOf(const Array<T>& F) {
  if (!F.present()) return {};
  const int64_t H = F.size(3);
  Array<T> R({F.size(0), F.size(1), H, H});
  for (int64_t b = 0; b < F.size(0); ++b)
    for (int64_t i = 0; i < F.size(1); ++i)
      for (int64_t s = 0; s < H; ++s)
        for (int64_t t = 0; t < H; ++t)
          R(b, i, s, t) =
              F(b, i, 0, s) * F(b, i, 2, t) + F(b, i, 1, s) * F(b, i, 3, t) + (s == t ? F(b, i, 4, s) : T(0));
  return R;
}

template <typename T>
Array<T> MatricesBackward(const Array<T>& F, const Array<T>& dR) {
  if (!F.present()) return {};
  Array<T> dF(F.sizes());
  for (int64_t b = 0; b < F.size(0); ++b)
    for (int64_t i = 0; i < F.size(1); ++i)
      for (int64_t s = 0; s < F.size(3); ++s)
        for (int64_t t = 0; t < F.size(3); ++t) {
          for (int64_t r = 0; r < 2; ++r) {
            dF(b, i, r, s) += dR(b, i, s, t) * F(b, i, 2 + r, t);
            dF(b, i, 2 + r, t) += dR(b, i, s, t) * F(b, i, r, s);
          }
          if (s == t) dF(b, i, 4, s) += dR(b, i, s, t);
        }
  return dF;
}

// f(b, n, m, h, a, k, i, j) for every tap (a, k) of every element of S[b, n, m, h], which reads S[b, i, j, h].
template <typename T, typename Function>
void ForTaps(const Array<T>& S, const Array<T>& filter, int64_t left, const Array<uint8_t>& mask, Function f) {
  const auto attends = [&](int64_t b, int64_t n, int64_t m) { return !mask.present() || mask(b, n, m); };
  for (int64_t b = 0; b < S.size(0); ++b)
    for (int64_t n = 0; n < S.size(1); ++n)
      for (int64_t m = 0; m < S.size(2); ++m)
        for (int64_t a = 0; a < filter.size(0); ++a)
          for (int64_t k = 0; k < filter.size(1); ++k) {
            const int64_t i = n - (filter.size(0) - 1) + a, j = m - left + k;
            if (i < 0 || j < 0 || j >= S.size(2) || !attends(b, n, m) || !attends(b, i, j)) continue;
            for (int64_t h = 0; h < S.size(3); ++h) f(b, n, m, h, a, k, i, j);
          }
}

// C[b, n, m, h] = Σ filter[a, k, h] · S[b, n - (c_q - 1) + a, m - left + k, h], of what mask attends, where it attends;
// S without a filter. Its gradients.
template <typename T>
Array<T> Convolve(const Array<T>& S, const Array<T>& filter, int64_t left, const Array<uint8_t>& mask) {
  if (!filter.present()) return S;
  Array<T> C(S.sizes());
  ForTaps(S, filter, left, mask,
          [&](int64_t b, int64_t n, int64_t m, int64_t h, int64_t a, int64_t k, int64_t i, int64_t j) {
            C(b, n, m, h) += filter(a, k, h) * S(b, i, j, h);
          });
  return C;
}

template <typename T>
Array<T> ConvolveBackward(const Array<T>& S, const Array<T>& filter, int64_t left, const Array<uint8_t>& mask,
                          const Array<T>& dC, Array<T>& dfilter) {
  if (!filter.present()) return dC;
  Array<T> dS(S.sizes());
  dfilter = Array<T>(filter.sizes());
  ForTaps(S, filter, left, mask,
          [&](int64_t b, int64_t n, int64_t m, int64_t h, int64_t a, int64_t k, int64_t i, int64_t j) {
            dS(b, i, j, h) += filter(a, k, h) * dC(b, n, m, h);
            dfilter(a, k, h) += S(b, i, j, h) * dC(b, n, m, h);
          });
  return dS;
}

// W[b, n, m, h] = softmax over m of L where mask attends and L is above kHiddenLogit; a query without any gets zeros.
template <typename T>
Array<T> MaskedSoftmax(const Array<T>& L, const Array<uint8_t>& mask) {
  Array<T> W(L.sizes());
  for (int64_t b = 0; b < L.size(0); ++b)
    for (int64_t n = 0; n < L.size(1); ++n)
      for (int64_t h = 0; h < L.size(3); ++h) {
        const auto sees = [&](int64_t m) {
          return (!mask.present() || mask(b, n, m)) && L(b, n, m, h) > T(kHiddenLogit);
        };
        T largest = -std::numeric_limits<T>::infinity();
        for (int64_t m = 0; m < L.size(2); ++m)
          if (sees(m)) largest = std::max(largest, L(b, n, m, h));
        T sum = 0;
        for (int64_t m = 0; m < L.size(2); ++m)
          if (sees(m)) sum += W(b, n, m, h) = std::exp(L(b, n, m, h) - largest);
        for (int64_t m = 0; m < L.size(2); ++m)
          if (sum > 0) W(b, n, m, h) /= sum;
      }
  return W;
}

template <typename T>
CoreValues<T> CoreForward(const CoreInputs<T>& in) {
  CoreValues<T> v;
  // J[b, n, m, h_k] = scale · Σ_dk Q · K
  const int64_t B = in.Q.size(0), N = in.Q.size(1), S = in.K.size(1), H_k = in.Q.size(3);
  v.J = Array<T>({B, N, S, H_k});
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < S; ++m)
        for (int64_t k = 0; k < H_k; ++k) {
          T dot = 0;
          for (int64_t d = 0; d < in.Q.size(2); ++d) dot += in.Q(b, n, d, k) * in.K(b, m, d, KeyHeadOf(in, k));
          v.J(b, n, m, k) = in.scale * dot;
        }

  // L[b, n, m, h] = C·P_l + C·R_Xl + C·R_Ml (C itself without any) + bias
  const bool mixes_logits = in.P_l.present() || in.R_Xl.present() || in.R_Ml.present() || in.F_Xl.present();
  const int64_t H = in.P_l.present()    ? in.P_l.size(1)
                    : in.R_Xl.present() ? in.R_Xl.size(3)
                    : in.R_Ml.present() ? in.R_Ml.size(3)
                                        : H_k;
  v.C = Convolve(v.J, in.conv_l, in.left_l, in.mask);
  v.L = mixes_logits ? Array<T>({B, N, S, H}) : v.C;
  Mix(v.C, in.P_l, MixedBy::kStatic, v.L);
  Mix(v.C, in.R_Xl, MixedBy::kQuery, v.L);
  Mix(v.C, in.R_Ml, MixedBy::kMemory, v.L);
  Mix(v.C, MatricesOf(in.F_Xl), MixedBy::kQuery, v.L);
  Mix(v.C, MatricesOf(in.F_Ml), MixedBy::kMemory, v.L);
  if (in.bias.present()) {
    for (int64_t b = 0; b < B; ++b)
      for (int64_t n = 0; n < N; ++n)
        for (int64_t m = 0; m < S; ++m)
          for (int64_t h = 0; h < H; ++h) v.L(b, n, m, h) += in.bias(h, n, m);
  }
  v.W = MaskedSoftmax(v.L, in.mask);

  // U[b, n, m, h_v] = Y·P_w + Y·R_Xw + Y·R_Mw (Y itself without any), times the dropout's multiplier
  const bool mixes_weights = in.P_w.present() || in.R_Xw.present() || in.R_Mw.present() || in.F_Xw.present();
  const int64_t H_v = in.P_w.present()    ? in.P_w.size(1)
                      : in.R_Xw.present() ? in.R_Xw.size(3)
                      : in.R_Mw.present() ? in.R_Mw.size(3)
                                          : H;
  v.Y = Convolve(v.W, in.conv_w, in.left_w, in.mask);
  v.U = mixes_weights ? Array<T>({B, N, S, H_v}) : v.Y;
  Mix(v.Y, in.P_w, MixedBy::kStatic, v.U);
  Mix(v.Y, in.R_Xw, MixedBy::kQuery, v.U);
  Mix(v.Y, in.R_Mw, MixedBy::kMemory, v.U);
  Mix(v.Y, MatricesOf(in.F_Xw), MixedBy::kQuery, v.U);
  Mix(v.Y, MatricesOf(in.F_Mw), MixedBy::kMemory, v.U);
  if (in.multiplier.present()) {
    for (size_t i = 0; i < v.U.values().size(); ++i) v.U.values()[i] *= in.multiplier.values()[i];
  }

  // O[b, n, d_v, h_v] = Σ_m U · V
  v.O = Array<T>({B, N, in.V.size(2), H_v});
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < S; ++m)
        for (int64_t d = 0; d < in.V.size(2); ++d)
          for (int64_t k = 0; k < H_v; ++k) v.O(b, n, d, k) += v.U(b, n, m, k) * in.V(b, m, d, k * in.V.size(3) / H_v);
  return v;
}

template <typename T>
void MixBackwardByFactors(const Array<T>& A, const Array<T>& F, MixedBy by, const Array<T>& dB, Array<T>& dA,
                          Array<T>& dF) {
  Array<T> dR;
  MixBackward(A, MatricesOf(F), by, dB, dA, dR);
  dF = MatricesBackward(F, dR);
}

// dO[b, n, d_v, h_v] → the gradient of every input that is present, each the inverse of one step of CoreForward, last
// step first.
template <typename T>
CoreInputs<T> CoreBackward(const CoreInputs<T>& in, const CoreValues<T>& v, const Array<T>& dO) {
  const int64_t B = in.Q.size(0), N = in.Q.size(1), S = in.K.size(1);
  const int64_t H_k = v.J.size(3), H = v.L.size(3), H_v = v.U.size(3);
  CoreInputs<T> d;
  // O = Σ_m U · V:  dU = Σ_dv dO · V,  dV = Σ_n U · dO
  Array<T> dU(v.U.sizes());
  d.V = Array<T>(in.V.sizes());
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < S; ++m)
        for (int64_t e = 0; e < in.V.size(2); ++e)
          for (int64_t k = 0; k < H_v; ++k) {
            dU(b, n, m, k) += dO(b, n, e, k) * in.V(b, m, e, k * in.V.size(3) / H_v);
            d.V(b, m, e, k * in.V.size(3) / H_v) += v.U(b, n, m, k) * dO(b, n, e, k);
          }
  if (in.multiplier.present()) {
    for (size_t i = 0; i < dU.values().size(); ++i) dU.values()[i] *= in.multiplier.values()[i];
  }

  // U = Y·P_w + Y·R_Xw + Y·R_Mw
  const bool mixes_weights = in.P_w.present() || in.R_Xw.present() || in.R_Mw.present() || in.F_Xw.present();
  Array<T> dY = mixes_weights ? Array<T>(v.Y.sizes()) : dU;
  MixBackward(v.Y, in.P_w, MixedBy::kStatic, dU, dY, d.P_w);
  MixBackward(v.Y, in.R_Xw, MixedBy::kQuery, dU, dY, d.R_Xw);
  MixBackward(v.Y, in.R_Mw, MixedBy::kMemory, dU, dY, d.R_Mw);
  MixBackwardByFactors(v.Y, in.F_Xw, MixedBy::kQuery, dU, dY, d.F_Xw);
  MixBackwardByFactors(v.Y, in.F_Mw, MixedBy::kMemory, dU, dY, d.F_Mw);
  const Array<T> dW = ConvolveBackward(v.W, in.conv_w, in.left_w, in.mask, dY, d.conv_w);

  // W = softmax(L):  dL = W ∘ (dW - Σ_m W · dW), zero where masked because W is
  Array<T> dL(v.L.sizes());
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t h = 0; h < H; ++h) {
        T sum = 0;
        for (int64_t m = 0; m < S; ++m) sum += v.W(b, n, m, h) * dW(b, n, m, h);
        for (int64_t m = 0; m < S; ++m) dL(b, n, m, h) = v.W(b, n, m, h) * (dW(b, n, m, h) - sum);
      }
  if (in.bias.present()) {
    d.bias = Array<T>(in.bias.sizes());
    for (int64_t b = 0; b < B; ++b)
      for (int64_t n = 0; n < N; ++n)
        for (int64_t m = 0; m < S; ++m)
          for (int64_t h = 0; h < H; ++h) d.bias(h, n, m) += dL(b, n, m, h);
  }

  // L = C·P_l + C·R_Xl + C·R_Ml
  const bool mixes_logits = in.P_l.present() || in.R_Xl.present() || in.R_Ml.present() || in.F_Xl.present();
  Array<T> dC = mixes_logits ? Array<T>(v.C.sizes()) : dL;
  MixBackward(v.C, in.P_l, MixedBy::kStatic, dL, dC, d.P_l);
  MixBackward(v.C, in.R_Xl, MixedBy::kQuery, dL, dC, d.R_Xl);
  MixBackward(v.C, in.R_Ml, MixedBy::kMemory, dL, dC, d.R_Ml);
  MixBackwardByFactors(v.C, in.F_Xl, MixedBy::kQuery, dL, dC, d.F_Xl);
  MixBackwardByFactors(v.C, in.F_Ml, MixedBy::kMemory, dL, dC, d.F_Ml);
  const Array<T> dJ = ConvolveBackward(v.J, in.conv_l, in.left_l, in.mask, dC, d.conv_l);

  // J = scale · Σ_dk Q · K:  dQ = scale · Σ_m dJ · K,  dK = scale · Σ_n dJ · Q
  d.Q = Array<T>(in.Q.sizes());
  d.K = Array<T>(in.K.sizes());
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < S; ++m)
        for (int64_t e = 0; e < in.Q.size(2); ++e)
          for (int64_t k = 0; k < H_k; ++k) {
            d.Q(b, n, e, k) += in.scale * dJ(b, n, m, k) * in.K(b, m, e, KeyHeadOf(in, k));
            d.K(b, m, e, KeyHeadOf(in, k)) += in.scale * dJ(b, n, m, k) * in.Q(b, n, e, k);
          }
  return d;
}

}  // namespace crosstalk::kernels::reference
