// The kinds of attention that the kernel's tests go through.
#pragma once

#include <cctype>
#include <string>

#include "crosstalk/kernels/attention/attention.h"

namespace crosstalk::kernels {

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

// `sizes` of a kind, with as many heads of each sort as it can have.
inline AttentionShape OfKind(const Kind& kind, AttentionShape sizes) {
  AttentionShape s = sizes;
  s.P_l = kind.P_l, s.P_w = kind.P_w;
  s.R_Xl = s.R_Ml = s.R_Xw = s.R_Mw = kind.dynamic;
  s.F_Xl = s.F_Ml = s.F_Xw = s.F_Mw = kind.factors;
  if (!s.MixesLogits() || s.F_Xl) s.h_k = s.h;
  if (!s.MixesWeights() || s.F_Xw) s.h_v = s.h;
  if (kind.convolved) s.c_ql = 3, s.c_kl = 5, s.c_qw = 4, s.c_kw = 2;
  if (kind.multi_query) s.kv_heads = KvHeads::kMultiQuery;
  return s;
}

// Its letters, for GoogleTest's names.
inline std::string TestName(const Kind& kind) {
  std::string name = kind.name;
  std::erase_if(name, [](char c) { return std::isalpha(c) == 0; });
  return name;
}

}  // namespace crosstalk::kernels
