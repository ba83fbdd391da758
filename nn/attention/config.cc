#include "crosstalk/nn/attention/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
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

bool Mixes(const HeadMixing& mixing, HeadsBetween between) {
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (projection.between == between && projection.mixing != nullptr && mixing.*projection.mixing) return true;
  }
  return false;
}

// Heads of P_k or P_v, which several heads share.
void CheckShared(const char* key, int64_t shared, const char* heads_name, int64_t heads) {
  if (shared < 0 || (shared > 0 && heads % shared != 0)) {
    FailAt(key, key, "=", shared, " heads cannot be shared by ", heads_name, "=", heads, ": they must divide it");
  }
}

void CheckConvolution(const char* key, int64_t c_q, int64_t c_k) {
  if (c_q < 0 || c_k < 0 || (c_q == 0) != (c_k == 0)) {
    FailAt(key, "a convolution of c_q=", c_q, " queries and c_k=", c_k, " keys; give at least 1 of both, or none");
  }
}

void ValidateOptions(const AttentionConfig& c) {
  CheckShared("g_k", c.g_k, "h_k", c.h_k);
  CheckShared("g_v", c.g_v, "h_v", c.h_v);
  const bool shares_keys = c.g_k > 0 && c.g_k < c.h_k;
  if (c.key_sharing == KeySharing::kPairs && shares_keys && (c.g_k % 2 != 0 || c.h_k % 2 != 0)) {
    FailAt("key_sharing", "pairs of h_k=", c.h_k, " heads share pairs of g_k=", c.g_k, ": both must be even");
  }
  if (c.tied() && ((c.g_k > 0 ? c.g_k : c.h_k) != (c.g_v > 0 ? c.g_v : c.h_v))) {
    FailAt("g_v", "g_k and g_v must be equal where keys and values are tied (V = K)");
  }
  if (c.mixing_group != 0) {
    const int64_t group = c.mixing_group;
    if (!c.mixing.P_l && !c.mixing.P_w) FailAt("mixing_group", "mixing_group=", group, " needs P_l or P_w");
    if (group < 1 || c.h % group != 0 || c.h_k != c.h || c.h_v != c.h) {
      FailAt("mixing_group", "groups of ", group, " heads must divide h_k = h = h_v, which are ", c.h_k, ", ", c.h,
             ", ", c.h_v);
    }
  }
  if (c.dynamic_form == DynamicForm::kLowRank) {
    if (c.d_X != c.d_M || c.h_k != c.h || c.h != c.h_v) {
      FailAt("dynamic_form", "low-rank dynamic projections need d_X = d_M and h_k = h = h_v");
    }
    if (c.mixing.P_Xl || c.mixing.P_Ml || c.mixing.P_Xw || c.mixing.P_Mw) {
      FailAt("dynamic_form", "low-rank dynamic projections replace P_Xl, P_Ml, P_Xw and P_Mw");
    }
    if (c.d_g < 0) FailAt("d_g", "d_g=", c.d_g, " is negative");
  }
  if (c.differential != Differential::kNone) {
    if (c.h != 2 * c.h_v) {
      FailAt("h_v", "differential attention subtracts the weights of each second head: h=", c.h,
             " must be 2·h_v, but h_v=", c.h_v);
    }
    if (c.mixing.MixesWeights() || c.dynamic_form == DynamicForm::kLowRank) {
      FailAt("differential", "differential attention mixes the weights itself, without ",
             NamesBetween(HeadsBetween::kWeights));
    }
  }
  if (!std::isfinite(c.LambdaInit())) FailAt("lambda_init", "lambda_init is not a finite number");
  CheckConvolution("c_ql", c.c_ql, c.c_kl);
  CheckConvolution("c_qw", c.c_qw, c.c_kw);
  if (c.rotary != Rotary::kNone) {
    if (c.d_k % 2 != 0) FailAt("d_k", "rotary positions turn pairs of a key's elements: d_k=", c.d_k, " must be even");
    const kernels::RotaryFrequencies& by = c.rotary_frequencies;
    if (!(by.base > 0) || !std::isfinite(by.base)) FailAt("rotary_base", "rotary_base=", by.base, " must be positive");
    if (!(by.factor > 0) || !std::isfinite(by.factor)) {
      FailAt("rotary_factor", "rotary_factor=", by.factor, " must be positive");
    }
    if (by.original_context < 0 || !(by.low > 0 && by.low < by.high) || !std::isfinite(by.high)) {
      FailAt("rotary_original_context", "rotary_original_context=", by.original_context, ", rotary_low=", by.low,
             " and rotary_high=", by.high, ": give a context of at least 0, and 0 < low < high");
    }
  }
  if (c.tied() && (c.query_key_norm || c.rotary != Rotary::kNone)) {
    FailAt("key_value", "keys that are normed or turned by their position cannot be values, too (V = K)");
  }
  if (!std::isfinite(c.HeadNormFactor())) FailAt("head_norm_factor", "head_norm_factor is not a finite number");
}

// Options of layers with projections only.
void CheckNoOptions(const char* form, const AttentionConfig& c) {
  const AttentionConfig none;
  const auto refuse = [&](bool given, const char* key) {
    if (given) FailAt(key, form, " attention has no ", key);
  };
  refuse(c.g_k != 0, "g_k");
  refuse(c.g_v != 0, "g_v");
  refuse(c.mixing_group != 0, "mixing_group");
  refuse(c.dynamic_form != none.dynamic_form, "dynamic_form");
  refuse(c.differential != none.differential, "differential");
  refuse(c.c_ql != 0 || c.c_kl != 0, "c_ql");
  refuse(c.c_qw != 0 || c.c_kw != 0, "c_qw");
  refuse(c.query_key_norm, "query_key_norm");
  refuse(c.rotary != none.rotary, "rotary");
  refuse(c.head_norm != none.head_norm, "head_norm");
  refuse(c.head_gate != none.head_gate, "head_gate");
}

void ValidateProjected(const AttentionConfig& c) {
  for (const AttentionDim& dim : kAttentionDims) CheckPositive({{dim.name, c.*dim.size}});
  if (!c.MixesLogits() && c.h_k != c.h) {
    FailAt("h_k", "h_k=", c.h_k, " and h=", c.h, " must be equal, because no projection (",
           NamesBetween(HeadsBetween::kLogits), ") stands between them");
  }
  ValidateOptions(c);
  if (!c.MixesWeights() && c.h != c.h_v) {
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

// "6x11" → queries and keys.
std::pair<int64_t, int64_t> ConvolutionSizes(const std::string& text) {
  int64_t queries = 0, keys = 0;
  const size_t x = text.find('x');
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto read = [](const char* from, const char* to, int64_t* value) {
    const auto result = std::from_chars(from, to, *value);
    return result.ec == std::errc() && result.ptr == to && *value >= 1 && *value <= 1024;
  };
  CROSSTALK_CHECK_FIELD(x != std::string::npos && read(begin, begin + x, &queries) && read(begin + x + 1, end, &keys),
                        "convolution", Excerpt(text), " is not QUERIESxKEYS, as 6x11");
  return {queries, keys};
}

void SetWindow(int64_t window, AttentionConfig& config) {
  config.window = window;
  if (window > 0) config.causality = Causality::kCausal;
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
  refuse(options.kv_heads.has_value(), "kv_heads");
  refuse(options.head_norm.value_or(HeadNorm::kNone) != HeadNorm::kNone, "head_norm");
  refuse(options.head_gate.value_or(HeadGate::kNone) != HeadGate::kNone, "head_gate");
  refuse(options.convolution.has_value(), "convolution");
  refuse(options.mixing_group != 0, "mixing_group");
  refuse(options.query_key_norm, "query_key_norm");
  AttentionConfig config = AttentionConfig::Bilinear(d_model, options.heads);
  SetWindow(options.window, config);
  config.Validate();
  return config;
}

}  // namespace

bool HeadMixing::MixesLogits() const { return Mixes(*this, HeadsBetween::kLogits); }
bool HeadMixing::MixesWeights() const { return Mixes(*this, HeadsBetween::kWeights); }

bool AttentionConfig::MixesLogits() const { return mixing.MixesLogits() || dynamic_form == DynamicForm::kLowRank; }
bool AttentionConfig::MixesWeights() const {
  return mixing.MixesWeights() || dynamic_form == DynamicForm::kLowRank || differential != Differential::kNone;
}

double AttentionConfig::LambdaInit() const {
  return lambda_init ? *lambda_init : 0.8 - 0.6 * Exp(-0.3 * static_cast<double>(depth));
}
double AttentionConfig::HeadNormFactor() const {
  if (head_norm_factor) return *head_norm_factor;
  return differential == Differential::kV1 ? 1 - LambdaInit() : 1;
}

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
      CheckNoOptions("dot-product", *this);
      break;
    case AttentionForm::kBilinear:
      CheckPositive({{"d_X", d_X}, {"d_M", d_M}, {"d_Y", d_Y}, {"h", h}});
      CheckUnused("bilinear", {{"h_k", h_k}, {"h_v", h_v}, {"d_k", d_k}, {"d_v", d_v}});
      CheckNoMixing("bilinear", mixing);
      CheckNoOptions("bilinear", *this);
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
  if (window < 0) FailAt("window", "window=", window, " is negative");
  if (window > 0 && causality != Causality::kCausal) {
    FailAt("window", "window=", window, " looks back from a query's own position, but the layer is not causal");
  }
  if (window > 0 && (ConvolvesLogits() || ConvolvesWeights())) {
    FailAt("window", "window=", window, " and convolutions (mta, convolution) are not computed together");
  }
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
  const std::string window = c.window > 0 ? StrCat(" window=", c.window) : "";
  const std::string widths = StrCat("d_X=", c.d_X, " d_M=", c.d_M, " d_Y=", c.d_Y, window);
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
  if (c.dynamic_form == DynamicForm::kLowRank) kind += ", dynamically composed";
  if (c.differential != Differential::kNone) kind += StrCat(", differential ", Name(c.differential));
  if (c.ConvolvesLogits()) kind += StrCat(", logits convolved ", c.c_ql, "x", c.c_kl);
  if (c.ConvolvesWeights()) kind += StrCat(", weights convolved ", c.c_qw, "x", c.c_kw);
  if (c.head_norm != HeadNorm::kNone) kind += ", head norm";
  if (c.head_gate != HeadGate::kNone) kind += ", head gate";
  if (c.rotary != Rotary::kNone) kind += ", rotary";
  const std::vector<std::string> dynamic = DynamicNamesOf(c.mixing);
  if (!dynamic.empty()) kind += " with dynamic " + Join(dynamic, ",");
  if (c.projection_biases) kind += c.output_bias ? ", with biases" : ", with biases of Q, K and V";
  if (c.tied()) kind += ", V = K";
  const std::string shared = (c.g_k > 0 ? StrCat(" g_k=", c.g_k) : "") + (c.g_v > 0 ? StrCat(" g_v=", c.g_v) : "");
  return StrCat(kind, ": ", widths, shared, " h_k=", c.h_k, " h=", c.h, " h_v=", c.h_v, " d_k=", c.d_k, " d_v=", c.d_v);
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
      if (c.dynamic_form == DynamicForm::kLowRank) {
        // J by the factors of R_Xl and R_Ml, W by those of R_Xw and R_Mw: two rows and two columns each
        multiplications.Add({n, m, 4, 2 * kernels::kMixingRank, c.h});
      }
      if (c.differential != Differential::kNone) multiplications.Add({n, m, c.h, c.h_v});
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

  const bool dynamic = kind == AttentionKind::kDynamic, mta = kind == AttentionKind::kMta;
  const bool talking = dynamic || mta || kind == AttentionKind::kTalking;
  const bool v1 = kind == AttentionKind::kDiffV1, v2 = kind == AttentionKind::kDiffV2;
  CROSSTALK_CHECK_FIELD(!(v1 || v2) || options.heads % 2 == 0, "heads", options.heads,
                        " is odd: differential attention has pairs of heads");
  AttentionConfig config;
  config.d_X = config.d_M = config.d_Y = d_model;
  config.h = options.heads;
  config.h_k = options.key_heads.value_or(config.h);
  config.h_v = options.value_heads.value_or(v1 || v2 ? config.h / 2 : config.h);
  CROSSTALK_CHECK_FIELD(config.h_k >= 1, "key_heads", config.h_k, " is less than 1");
  CROSSTALK_CHECK_FIELD(config.h_v >= 1, "value_heads", config.h_v, " is less than 1");
  config.d_k = SizePerHead(options.key_size, "key_size", v2 ? "h_v" : "h_k", v2 ? config.h_v : config.h_k, d_model);
  config.d_v = SizePerHead(options.value_size, "value_size", "h_v", config.h_v, d_model);
  config.mixing.P_l = talking || kind == AttentionKind::kLogits;
  config.mixing.P_w = talking || kind == AttentionKind::kWeights;
  AddDynamic(options.dynamic.value_or(dynamic ? Join(DynamicNames(), ",") : "none"), config.mixing);
  if (kind == AttentionKind::kDcmha) config.dynamic_form = DynamicForm::kLowRank;
  if (v1) config.differential = Differential::kV1;
  if (v2) config.differential = Differential::kV2;
  if (options.kv_heads || v2) {
    config.g_v = options.kv_heads.value_or(config.h_v);
    config.g_k = v1 ? 2 * config.g_v : config.g_v;
    CROSSTALK_CHECK_FIELD(config.g_v >= 1, "kv_heads", config.g_v, " is less than 1");
    CROSSTALK_CHECK_FIELD(config.h_k % config.g_k == 0 && config.h_v % config.g_v == 0, "kv_heads", config.g_v,
                          " must divide the heads");
    if (v1) config.key_sharing = KeySharing::kPairs;
  }
  if (mta || options.convolution) {
    const auto [queries, keys] = ConvolutionSizes(options.convolution.value_or("6x11"));
    config.c_ql = config.c_qw = queries;
    config.c_kl = config.c_kw = keys;
  }
  config.mixing_group = options.mixing_group;
  if (mta) config.mixing_init = MixingInit::kIdentity;
  config.query_key_norm = options.query_key_norm;
  config.head_norm = options.head_norm.value_or(v1 || mta ? HeadNorm::kRmsGain : HeadNorm::kNone);
  config.head_gate = options.head_gate.value_or(mta ? HeadGate::kScalar : HeadGate::kNone);
  SetWindow(options.window, config);
  config.Validate();
  return config;
}

}  // namespace crosstalk
