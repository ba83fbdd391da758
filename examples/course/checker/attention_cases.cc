#include "examples/course/checker/attention_cases.h"

#include <cmath>

#include "crosstalk/runtime/check.h"

namespace course {

std::string Describe(const CoreSizes& s) {
  return crosstalk::StrCat("b=", s.b, " n=", s.n, " m=", s.m, " d_k=", s.d_k, " d_v=", s.d_v, " h_k=", s.h_k,
                           " h=", s.h, " h_v=", s.h_v);
}

Core MultiHeadCore(const CoreSizes& s) {
  Core core;
  core.Q = Random("Q[b, n, d_k, h_k]", {s.b, s.n, s.d_k, s.h_k});
  core.K = Random("K[b, m, d_k, h_k]", {s.b, s.m, s.d_k, s.h_k});
  core.V = Random("V[b, m, d_v, h_k]", {s.b, s.m, s.d_v, s.h_k});
  core.scale = 1 / std::sqrt(static_cast<double>(s.d_k));
  return core;
}

Core TalkingCore(const CoreSizes& s) {
  Core core = MultiHeadCore(s);
  core.V = Random("V[b, m, d_v, h_v]", {s.b, s.m, s.d_v, s.h_v});
  core.P_l = Random("P_l[h_k, h]", {s.h_k, s.h});
  core.P_w = Random("P_w[h, h_v]", {s.h, s.h_v});
  return core;
}

Array MakeMask(const CoreSizes& s, MaskKind kind) {
  Array mask("mask[b, n, m]", Array({s.b, s.n, s.m}, 1));
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t m = 0; m < s.m; ++m) {
        const bool blind = kind == MaskKind::kBlindQuery && b + 1 == s.b && n + 1 == s.n;
        mask(b, n, m) = kind == MaskKind::kNone || (!blind && m != (n + b) % s.m);
      }
  return mask;
}

void SetMask(const Array& mask, Core& core) {
  core.mask = crosstalk::kernels::reference::Array<uint8_t>(mask.sizes());
  for (size_t i = 0; i < mask.values().size(); ++i) core.mask.values()[i] = mask.values()[i] != 0;
}

Results Forward(const Core& core) {
  return {Array("O[b, n, d_v, h_v]", crosstalk::kernels::reference::CoreForward(core).O)};
}

Array Logits(const Core& core) { return Array("J[b, n, m, h_k]", crosstalk::kernels::reference::CoreForward(core).J); }

Array DO(const Core& core) {
  return Random("dO[b, n, d_v, h_v]", crosstalk::kernels::reference::CoreForward(core).O.sizes());
}

std::vector<double> PlainSoftmax(const std::vector<double>& x, double subtracted) {
  std::vector<double> y;
  double sum = 0;
  for (const double value : x) sum += std::exp(value - subtracted);
  for (const double value : x) y.push_back(std::exp(value - subtracted) / sum);
  return y;
}

}  // namespace course
