#include "crosstalk/nn/attention/config.h"

#include <cmath>
#include <initializer_list>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// What a dimension is, for messages.
struct NamedSize {
  const char* name;
  int64_t size;
};

void CheckPositive(std::initializer_list<NamedSize> sizes) {
  for (const NamedSize& dim : sizes) {
    CROSSTALK_CHECK(dim.size >= 1, "attention: ", dim.name, "=", dim.size, ", but every dimension must be at least 1");
  }
}

void CheckUnused(const char* form, std::initializer_list<NamedSize> sizes) {
  for (const NamedSize& dim : sizes) {
    CROSSTALK_CHECK(dim.size == 0, "attention: ", form, " attention has no ", dim.name, ", but ", dim.name, "=",
                    dim.size, "; leave it 0");
  }
}

void CheckNoMixing(const char* form, const HeadMixing& mixing) {
  CROSSTALK_CHECK(!mixing.MixesLogits() && !mixing.MixesWeights(), "attention: ", form,
                  " attention has no head projections: P_l, P_w, P_Xl, P_Ml, P_Xw and P_Mw must all be absent");
}

void ValidateProjected(const AttentionConfig& c) {
  CheckPositive({{"d_X", c.d_X},
                 {"d_M", c.d_M},
                 {"d_Y", c.d_Y},
                 {"h_k", c.h_k},
                 {"h", c.h},
                 {"h_v", c.h_v},
                 {"d_k", c.d_k},
                 {"d_v", c.d_v}});
  CROSSTALK_CHECK(c.mixing.MixesLogits() || c.h_k == c.h, "attention: h_k=", c.h_k, " and h=", c.h,
                  " must be equal, because no projection (P_l, P_Xl or P_Ml) stands between them");
  CROSSTALK_CHECK(c.mixing.MixesWeights() || c.h == c.h_v, "attention: h=", c.h, " and h_v=", c.h_v,
                  " must be equal, because no projection (P_w, P_Xw or P_Mw) stands between them");
  if (c.tied()) {
    CROSSTALK_CHECK(c.h_k == c.h_v, "attention: h_k=", c.h_k, " and h_v=", c.h_v,
                    " must be equal where keys and values are tied (V = K)");
    CROSSTALK_CHECK(c.d_k == c.d_v, "attention: d_k=", c.d_k, " and d_v=", c.d_v,
                    " must be equal where keys and values are tied (V = K)");
  }
  if (c.mixing_init == MixingInit::kIdentity) {
    CROSSTALK_CHECK(!c.mixing.P_l || c.h_k == c.h, "attention: P_l[h_k, h] cannot start as the identity: h_k=", c.h_k,
                    " and h=", c.h, " must be equal");
    CROSSTALK_CHECK(!c.mixing.P_w || c.h == c.h_v, "attention: P_w[h, h_v] cannot start as the identity: h=", c.h,
                    " and h_v=", c.h_v, " must be equal");
  }
}

// Σ of products, refusing what does not fit in 63 bits.
class Count {
 public:
  void Add(std::initializer_list<int64_t> factors) {
    int64_t product = 1;
    bool overflow = false;
    for (const int64_t factor : factors) overflow |= __builtin_mul_overflow(product, factor, &product);
    overflow |= __builtin_add_overflow(total_, product, &total_);
    CROSSTALK_CHECK(!overflow, "attention: the dimensions are too large: their cost does not fit in 63 bits");
  }
  int64_t total() const { return total_; }

 private:
  int64_t total_ = 0;
};

void AddDynamic(const std::string& list, HeadMixing& mixing) {
  if (list == "none") return;
  for (std::string name : Split(list, ',')) {
    std::erase(name, ' ');
    if (name == "Xl") {
      mixing.P_Xl = true;
    } else if (name == "Ml") {
      mixing.P_Ml = true;
    } else if (name == "Xw") {
      mixing.P_Xw = true;
    } else if (name == "Mw") {
      mixing.P_Mw = true;
    } else {
      Fail(ErrorKind::kUsage, "--dynamic: unknown projection '", name,
           "'; give some of Xl,Ml,Xw,Mw separated by commas, or none");
    }
  }
}

int64_t SizePerHead(const std::optional<int64_t>& given, const char* option, const char* heads_name, int64_t heads,
                    int64_t d_model) {
  if (given.has_value()) {
    CROSSTALK_CHECK(*given >= 1, option, " ", *given, ": must be at least 1");
    return *given;
  }
  CROSSTALK_CHECK(d_model % heads == 0, "d_model=", d_model, " does not divide into ", heads_name, "=", heads,
                  " heads; give ", option, " or another number of heads");
  return d_model / heads;
}

std::string DynamicNames(const HeadMixing& mixing) {
  std::string names;
  const auto append = [&](bool present, const char* name) {
    if (present) names += (names.empty() ? "" : ",") + std::string(name);
  };
  append(mixing.P_Xl, "Xl");
  append(mixing.P_Ml, "Ml");
  append(mixing.P_Xw, "Xw");
  append(mixing.P_Mw, "Mw");
  return names;
}

}  // namespace

void AttentionConfig::Validate() const {
  switch (form) {
    case AttentionForm::kDotProduct:
      CheckPositive({{"d_X", d_X}, {"d_M", d_M}, {"d_Y", d_Y}});
      CROSSTALK_CHECK(d_X == d_M && d_M == d_Y, "attention: without projections d_X=", d_X, ", d_M=", d_M,
                      " and d_Y=", d_Y, " must be equal");
      CROSSTALK_CHECK(h == 1, "attention: dot-product attention has one head, but h=", h);
      CheckUnused("dot-product", {{"h_k", h_k}, {"h_v", h_v}, {"d_k", d_k}, {"d_v", d_v}});
      CheckNoMixing("dot-product", mixing);
      break;
    case AttentionForm::kBilinear:
      CheckPositive({{"d_X", d_X}, {"d_M", d_M}, {"d_Y", d_Y}, {"h", h}});
      CheckUnused("bilinear", {{"h_k", h_k}, {"h_v", h_v}, {"d_k", d_k}, {"d_v", d_v}});
      CheckNoMixing("bilinear", mixing);
      break;
    case AttentionForm::kProjected:
      ValidateProjected(*this);
      break;
  }
  CROSSTALK_CHECK(form == AttentionForm::kProjected || !tied(),
                  "attention: only a layer with P_k and P_v can tie its keys and values");
  CROSSTALK_CHECK(std::isfinite(scale), "attention: the scale is not a finite number");
  CROSSTALK_CHECK(dropout_rate >= 0 && dropout_rate < 1, "attention: dropout rate ", dropout_rate,
                  " must be at least 0 and below 1");
}

AttentionConfig AttentionConfig::DotProduct(int64_t d_model) {
  AttentionConfig config;
  config.form = AttentionForm::kDotProduct;
  config.d_X = config.d_M = config.d_Y = d_model;
  config.h = 1;
  return config;
}

AttentionConfig AttentionConfig::MultiHead(int64_t d_model, int64_t heads, int64_t head_size) {
  AttentionConfig config;
  config.d_X = config.d_M = config.d_Y = d_model;
  config.h_k = config.h = config.h_v = heads;
  config.d_k = config.d_v = head_size;
  return config;
}

AttentionConfig AttentionConfig::TalkingHeads(int64_t d_model, int64_t h_k, int64_t h, int64_t h_v, int64_t d_k,
                                              int64_t d_v) {
  AttentionConfig config;
  config.d_X = config.d_M = config.d_Y = d_model;
  config.h_k = h_k;
  config.h = h;
  config.h_v = h_v;
  config.d_k = d_k;
  config.d_v = d_v;
  config.mixing.P_l = config.mixing.P_w = true;
  return config;
}

AttentionConfig AttentionConfig::Bilinear(int64_t d_model, int64_t heads) {
  AttentionConfig config;
  config.form = AttentionForm::kBilinear;
  config.d_X = config.d_M = config.d_Y = d_model;
  config.h = heads;
  return config;
}

std::string ToString(const AttentionConfig& c) {
  const std::string widths = StrCat("d_X=", c.d_X, " d_M=", c.d_M, " d_Y=", c.d_Y);
  if (c.form == AttentionForm::kDotProduct) return StrCat("dot-product: ", widths);
  if (c.form == AttentionForm::kBilinear) return StrCat("general bilinear: ", widths, " h=", c.h);
  std::string kind = "multi-head";
  if (c.mixing.P_l && c.mixing.P_w) {
    kind = "talking-heads";
  } else if (c.mixing.P_l) {
    kind = "logits projection";
  } else if (c.mixing.P_w) {
    kind = "weights projection";
  }
  const std::string dynamic = DynamicNames(c.mixing);
  if (!dynamic.empty()) kind += " with dynamic " + dynamic;
  if (c.tied()) kind += ", V = K";
  return StrCat(kind, ": ", widths, " h_k=", c.h_k, " h=", c.h, " h_v=", c.h_v, " d_k=", c.d_k, " d_v=", c.d_v);
}

AttentionCost CostOf(const AttentionConfig& c, int64_t n, int64_t m) {
  c.Validate();
  CheckPositive({{"n", n}, {"m", m}});
  Count parameters, multiplications;
  switch (c.form) {
    case AttentionForm::kDotProduct:
      multiplications.Add({n, m, c.d_X});  // L = einsum(X, M)
      multiplications.Add({n, m, c.d_M});  // Y = einsum(W, M)
      break;
    case AttentionForm::kBilinear:
      parameters.Add({c.d_X, c.d_M, c.h});
      parameters.Add({c.d_M, c.d_Y, c.h});
      multiplications.Add({n, c.d_X, c.d_M, c.h});  // einsum(X, P)
      multiplications.Add({n, m, c.d_M, c.h});      // L = einsum(…, M)
      multiplications.Add({n, m, c.d_M, c.h});      // einsum(W, M)
      multiplications.Add({n, c.d_M, c.d_Y, c.h});  // Y = einsum(…, Q)
      break;
    case AttentionForm::kProjected: {
      const auto project = [&](bool present, int64_t positions, int64_t width, int64_t heads, int64_t size) {
        if (!present) return;
        parameters.Add({width, heads, size});
        multiplications.Add({positions, width, heads, size});
      };
      const auto mix = [&](bool present, int64_t from, int64_t to) {
        if (present) multiplications.Add({n, m, from, to});
      };
      const HeadMixing& mixing = c.mixing;
      project(true, n, c.d_X, c.h_k, c.d_k);       // Q
      project(true, m, c.d_M, c.h_k, c.d_k);       // K
      project(!c.tied(), m, c.d_M, c.h_v, c.d_v);  // V
      project(true, n, c.d_Y, c.h_v, c.d_v);       // Y
      multiplications.Add({n, m, c.h_k, c.d_k});   // J
      multiplications.Add({n, m, c.h_v, c.d_v});   // O
      project(mixing.P_Xl, n, c.d_X, c.h_k, c.h);  // R_Xl
      project(mixing.P_Ml, m, c.d_M, c.h_k, c.h);  // R_Ml
      project(mixing.P_Xw, n, c.d_X, c.h, c.h_v);  // R_Xw
      project(mixing.P_Mw, m, c.d_M, c.h, c.h_v);  // R_Mw
      if (mixing.P_l) parameters.Add({c.h_k, c.h});
      if (mixing.P_w) parameters.Add({c.h, c.h_v});
      for (const bool present : {mixing.P_l, mixing.P_Xl, mixing.P_Ml}) mix(present, c.h_k, c.h);  // L
      for (const bool present : {mixing.P_w, mixing.P_Xw, mixing.P_Mw}) mix(present, c.h, c.h_v);  // U
      break;
    }
  }
  return {parameters.total(), multiplications.total()};
}

AttentionConfig MakeAttentionConfig(const AttentionOptions& options, int64_t d_model) {
  CROSSTALK_CHECK(d_model >= 1, "d_model=", d_model, ": must be at least 1");
  CROSSTALK_CHECK(options.heads >= 1, "--heads ", options.heads, ": must be at least 1");
  const std::string& kind = options.kind;
  if (kind == "bilinear") {
    const auto refuse = [](bool given, const char* option) {
      CROSSTALK_CHECK(!given, option, " has no meaning for bilinear attention, whose only size is --heads");
    };
    refuse(options.key_heads.has_value(), "--key-heads");
    refuse(options.value_heads.has_value(), "--value-heads");
    refuse(options.key_size.has_value(), "--key-size");
    refuse(options.value_size.has_value(), "--value-size");
    refuse(options.dynamic.has_value() && *options.dynamic != "none", "--dynamic");
    AttentionConfig config = AttentionConfig::Bilinear(d_model, options.heads);
    config.Validate();
    return config;
  }

  const bool dynamic = kind == "dynamic";
  CROSSTALK_CHECK(dynamic || kind == "multihead" || kind == "talking" || kind == "logits" || kind == "weights",
                  "attention: unknown kind '", kind, "'; there are ", kAttentionKinds);
  AttentionConfig config;
  config.d_X = config.d_M = config.d_Y = d_model;
  config.h = options.heads;
  config.h_k = options.key_heads.value_or(config.h);
  config.h_v = options.value_heads.value_or(config.h);
  CROSSTALK_CHECK(config.h_k >= 1, "--key-heads ", config.h_k, ": must be at least 1");
  CROSSTALK_CHECK(config.h_v >= 1, "--value-heads ", config.h_v, ": must be at least 1");
  config.d_k = SizePerHead(options.key_size, "--key-size", "h_k", config.h_k, d_model);
  config.d_v = SizePerHead(options.value_size, "--value-size", "h_v", config.h_v, d_model);
  config.mixing.P_l = dynamic || kind == "talking" || kind == "logits";
  config.mixing.P_w = dynamic || kind == "talking" || kind == "weights";
  AddDynamic(options.dynamic.value_or(dynamic ? "Xl,Ml,Xw,Mw" : "none"), config.mixing);
  config.Validate();
  return config;
}

AttentionImplementation ParseAttentionImplementation(std::string_view name) {
  if (name == "composed") return AttentionImplementation::kComposed;
  if (name == "fused") return AttentionImplementation::kFused;
  Fail(ErrorKind::kUsage, "--implementation: unknown name '", name, "'; there are: composed, fused");
}

const char* Name(AttentionImplementation implementation) {
  switch (implementation) {
    case AttentionImplementation::kComposed:
      return "composed";
    case AttentionImplementation::kFused:
      return "fused";
  }
  return "?";
}

}  // namespace crosstalk
