#include "crosstalk/nn/attention/config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>
#include <vector>

#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// A usage error of a layer whose member `key` is at fault.
template <typename... Parts>
[[noreturn]] void FailAt(const char* key, const Parts&... parts) {
  throw Error(ErrorKind::kUsage, StrCat("attention: ", parts...), key);
}

struct NamedSize {
  const char* name;
  int64_t size;
};

void CheckPositive(std::initializer_list<NamedSize> sizes) {
  for (const NamedSize& dim : sizes) {
    if (dim.size < 1) FailAt(dim.name, dim.name, "=", dim.size, ", but every dimension must be at least 1");
  }
}

void CheckUnused(const char* form, std::initializer_list<NamedSize> sizes) {
  for (const NamedSize& dim : sizes) {
    if (dim.size != 0) {
      FailAt(dim.name, form, " attention has no ", dim.name, ", but ", dim.name, "=", dim.size, "; leave it 0");
    }
  }
}

void CheckNoMixing(const char* form, const HeadMixing& mixing) {
  if (mixing != HeadMixing()) {
    FailAt("mixing", form, " attention has no head projections: they must all be absent");
  }
}

void ValidateProjected(const AttentionConfig& c) {
  for (const AttentionDim& dim : kAttentionDims) CheckPositive({{dim.name, c.*dim.size}});
  if (!c.mixing.MixesLogits() && c.h_k != c.h) {
    FailAt("h_k", "h_k=", c.h_k, " and h=", c.h, " must be equal, because no projection (",
           NamesBetween(HeadsBetween::kLogits), ") stands between them");
  }
  if (!c.mixing.MixesWeights() && c.h != c.h_v) {
    FailAt("h_v", "h=", c.h, " and h_v=", c.h_v, " must be equal, because no projection (",
           NamesBetween(HeadsBetween::kWeights), ") stands between them");
  }
  const auto check_tied = [&](const char* key, const char* name_k, int64_t of_k, int64_t of_v) {
    if (!c.tied() || of_k == of_v) return;
    FailAt(key, name_k, "=", of_k, " and ", key, "=", of_v, " must be equal where keys and values are tied (V = K)");
  };
  check_tied("h_v", "h_k", c.h_k, c.h_v);
  check_tied("d_v", "d_k", c.d_k, c.d_v);
  if (c.mixing_init != MixingInit::kIdentity) return;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (projection.source != ProjectionSource::kStatic || !IsPresent(projection, c)) continue;
    const Shape shape = ShapeOf(projection, c);
    if (shape[0] != shape[1]) {
      FailAt("mixing_init", projection.bracket, " = ", shape,
             " cannot start as the identity: both sizes must be equal");
    }
  }
}

// Σ of products.
class Count {
 public:
  void Add(std::span<const int64_t> factors) {
    int64_t product = 1;
    for (const int64_t factor : factors) product = SaturatingProduct(product, factor);
    total_ = SaturatingSum(total_, product);
    CROSSTALK_CHECK(total_ != kTooMany, "attention: the dimensions are too large: their cost does not fit in 63 bits");
  }
  void Add(std::initializer_list<int64_t> factors) { Add(std::span(factors.begin(), factors.size())); }
  int64_t total() const { return total_; }

 private:
  int64_t total_ = 0;
};

bool Mixes(const HeadMixing& mixing, HeadsBetween between) {
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (projection.between == between && projection.mixing != nullptr && mixing.*projection.mixing) return true;
  }
  return false;
}

std::vector<std::string> DynamicNamesOf(const HeadMixing& mixing) {
  std::vector<std::string> names;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (IsDynamic(projection) && mixing.*projection.mixing) names.emplace_back(DynamicName(projection));
  }
  return names;
}

void AddDynamic(const std::string& list, HeadMixing& mixing) {
  if (list == "none") return;
  std::vector<std::string> names = Split(list, ',');
  for (std::string& name : names) std::erase(name, ' ');
  for (const std::string& name : names) {
    bool known = false;
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (!IsDynamic(projection) || DynamicName(projection) != name) continue;
      mixing.*projection.mixing = true;
      known = true;
    }
    CROSSTALK_CHECK_FIELD(std::count(names.begin(), names.end(), name) == 1, "dynamic", Excerpt(name),
                          " stands there twice");
    CROSSTALK_CHECK_FIELD(known, "dynamic", "unknown projection ", Quoted(name), "; give some of ",
                          Join(DynamicNames(), ","), " separated by commas, or none", DidYouMean(name, DynamicNames()));
  }
}

int64_t SizePerHead(const std::optional<int64_t>& given, const char* field, const char* heads_name, int64_t heads,
                    int64_t d_model) {
  if (given.has_value()) {
    CROSSTALK_CHECK_FIELD(*given >= 1, field, *given, " is less than 1");
    return *given;
  }
  CROSSTALK_CHECK_FIELD(d_model % heads == 0, field, "must be given where d_model=", d_model, " does not divide into ",
                        heads_name, "=", heads, " heads");
  return d_model / heads;
}

AttentionConfig MakeBilinear(const AttentionOptions& options, int64_t d_model) {
  const auto refuse = [](bool given, const char* field) {
    CROSSTALK_CHECK_FIELD(!given, field, "has no meaning for bilinear attention, whose only size is heads");
  };
  refuse(options.key_heads.has_value(), "key_heads");
  refuse(options.value_heads.has_value(), "value_heads");
  refuse(options.key_size.has_value(), "key_size");
  refuse(options.value_size.has_value(), "value_size");
  refuse(options.dynamic.has_value() && *options.dynamic != "none", "dynamic");
  AttentionConfig config = AttentionConfig::Bilinear(d_model, options.heads);
  config.Validate();
  return config;
}

}  // namespace

bool HeadMixing::MixesLogits() const { return Mixes(*this, HeadsBetween::kLogits); }
bool HeadMixing::MixesWeights() const { return Mixes(*this, HeadsBetween::kWeights); }

void AttentionConfig::Validate() const {
  switch (form) {
    case AttentionForm::kDotProduct:
      CheckPositive({{"d_X", d_X}, {"d_M", d_M}, {"d_Y", d_Y}});
      if (d_X != d_M || d_M != d_Y) {
        FailAt(d_X != d_M ? "d_M" : "d_Y", "without projections d_X=", d_X, ", d_M=", d_M, " and d_Y=", d_Y,
               " must be equal");
      }
      if (h != 1) FailAt("h", "dot-product attention has one head, but h=", h);
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
  const bool projected = form == AttentionForm::kProjected;
  if (!projected && tied()) FailAt("key_value", "only a layer with P_k and P_v can tie its keys and values");
  if (!projected && projection_biases) {
    FailAt("projection_biases", "only a layer with P_q, P_k, P_v and P_o has biases beside them");
  }
  if (!std::isfinite(projection_stddev) || projection_stddev < 0) {
    FailAt("projection_stddev", "projection_stddev=", projection_stddev, " must be at least 0");
  }
  if (!std::isfinite(scale)) FailAt("scale", "the scale is not a finite number");
  if (!(dropout_rate >= 0 && dropout_rate < 1)) {
    FailAt("dropout_rate", "dropout rate ", dropout_rate, " must be at least 0 and below 1");
  }
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
  const std::vector<std::string> dynamic = DynamicNamesOf(c.mixing);
  if (!dynamic.empty()) kind += " with dynamic " + Join(dynamic, ",");
  if (c.projection_biases) kind += ", with biases";
  if (c.tied()) kind += ", V = K";
  return StrCat(kind, ": ", widths, " h_k=", c.h_k, " h=", c.h, " h_v=", c.h_v, " d_k=", c.d_k, " d_v=", c.d_v);
}

AttentionCost CostOf(const AttentionConfig& c, int64_t n, int64_t m) {
  c.Validate();
  CheckPositive({{"n", n}, {"m", m}});
  Count parameters, multiplications;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (!IsPresent(projection, c)) continue;
    parameters.Add(ShapeOf(projection, c).ToVector());
    for (const std::vector<int64_t>& product : MultiplicationsOf(projection, c, n, m)) multiplications.Add(product);
  }
  switch (c.form) {
    case AttentionForm::kDotProduct:
      multiplications.Add({n, m, c.d_X});  // L = einsum(X, M)
      multiplications.Add({n, m, c.d_M});  // Y = einsum(W, M)
      break;
    case AttentionForm::kBilinear:
      multiplications.Add({n, m, c.d_M, c.h});  // L = einsum(X·P, M)
      multiplications.Add({n, m, c.d_M, c.h});  // einsum(W, M)
      break;
    case AttentionForm::kProjected:
      multiplications.Add({n, m, c.h_k, c.d_k});  // J
      multiplications.Add({n, m, c.h_v, c.d_v});  // O
      break;
  }
  return {parameters.total(), multiplications.total()};
}

AttentionConfig MakeAttentionConfig(const AttentionOptions& options, int64_t d_model) {
  CROSSTALK_CHECK_FIELD(d_model >= 1, "d_model", d_model, " is less than 1");
  CROSSTALK_CHECK_FIELD(options.heads >= 1, "heads", options.heads, " is less than 1");
  const AttentionKind kind = options.kind;
  if (kind == AttentionKind::kBilinear) return MakeBilinear(options, d_model);

  const bool dynamic = kind == AttentionKind::kDynamic, talking = dynamic || kind == AttentionKind::kTalking;
  AttentionConfig config;
  config.d_X = config.d_M = config.d_Y = d_model;
  config.h = options.heads;
  config.h_k = options.key_heads.value_or(config.h);
  config.h_v = options.value_heads.value_or(config.h);
  CROSSTALK_CHECK_FIELD(config.h_k >= 1, "key_heads", config.h_k, " is less than 1");
  CROSSTALK_CHECK_FIELD(config.h_v >= 1, "value_heads", config.h_v, " is less than 1");
  config.d_k = SizePerHead(options.key_size, "key_size", "h_k", config.h_k, d_model);
  config.d_v = SizePerHead(options.value_size, "value_size", "h_v", config.h_v, d_model);
  config.mixing.P_l = talking || kind == AttentionKind::kLogits;
  config.mixing.P_w = talking || kind == AttentionKind::kWeights;
  AddDynamic(options.dynamic.value_or(dynamic ? Join(DynamicNames(), ",") : "none"), config.mixing);
  config.Validate();
  return config;
}

}  // namespace crosstalk
