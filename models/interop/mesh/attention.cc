#include "crosstalk/models/interop/mesh/attention.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr const char* kTalking = "TalkingHeads";
constexpr const char* kDynamicProjections = "dynamic_projections";

// The dynamic projections by their names there and here. Of two on one side, the query's is number 0 and the
// memory's 1.
struct DynamicRow {
  const char* theirs;
  const char* ours;
  bool HeadMixing::*field;
  const char* side;
};
constexpr DynamicRow kDynamic[] = {{"x2l", "Xl", &HeadMixing::P_Xl, "logits"},
                                   {"m2l", "Ml", &HeadMixing::P_Ml, "logits"},
                                   {"x2w", "Xw", &HeadMixing::P_Xw, "weights"},
                                   {"m2w", "Mw", &HeadMixing::P_Mw, "weights"}};

std::string DynamicTensor(const std::string& prefix, const std::string& side, int number) {
  return StrCat(prefix, side, "/", side, "_dynamic_", number, "/kernel");
}

bool IsPlain(const AttentionConfig& layer) { return layer.mixing == HeadMixing() && layer.d_k == layer.d_v; }

class LayerReader {
 public:
  LayerReader(const PublishedConfig& config, const MeshPlace& place, int64_t d_model)
      : config_(config),
        place_(place),
        d_model_(d_model),
        prefix_(StrCat(BlockPrefix(place.stack, 0), "layer_", place.layer, "/")) {}

  AttentionConfig Read() const {
    CheckScale();
    if (config_.HasTensor(prefix_ + place_.base + "/q")) return Plain();
    if (config_.HasTensor(prefix_ + kTalking + place_.base + "/q/kernel")) return TalkingHeads();
    config_.FailAt(place_.base, "there is no tensor '", prefix_, place_.base, "/q' and no '", prefix_, kTalking,
                   place_.base, "/q/kernel'");
  }

 private:
  // q, k and v [d_model, h·d_kv], o [h·d_kv, d_model]: how many heads they are, the relative bias says.
  AttentionConfig Plain() const {
    const std::string prefix = prefix_ + place_.base + "/";
    const int64_t together = RequiredShape(config_, prefix + "q", 2)[1];
    const MeshBinding said = Find(place_.base, "num_heads");
    const bool has_bias = std::string(place_.base) == kMeshEncoderSelf.base;
    int64_t heads = RelativeBiasShape(config_, place_.stack)[0];
    if (said.value != nullptr) {
      const int64_t number = config_.Int(said.key, 0, 1, 1 << 24);
      if (has_bias && number != heads) {
        config_.FailAt(said.key, number, " heads, but the relative bias has ", heads);
      }
      heads = number;
    }
    const MeshBinding size = Find(place_.base, "key_value_size");
    if (together % heads != 0) {
      config_.FailAt(said.value != nullptr ? said.key : place_.base, "the tensor '", prefix, "q' has ", together,
                     " columns, which are not those of ", heads, " heads");
    }
    if (size.value != nullptr && config_.Int(size.key, 0, 1, 1 << 24) != together / heads) {
      config_.FailAt(size.key, Excerpt(size.value->Dump()), ", but the ", together, " columns of '", prefix, "q' are ",
                     heads, " heads of ", together / heads);
    }
    for (const char* tensor : {"q", "k", "v"}) {
      config_.CheckShape("d_model, h·d_kv", prefix + tensor, {d_model_, together});
    }
    config_.CheckShape("h·d_kv, d_model", prefix + "o", {together, d_model_});
    return AttentionConfig::MultiHead(d_model_, heads, together / heads);
  }

  // q, k [d_model, h_k, d_k], v [d_model, h_v, d_v], y [h_v, d_v, d_model], and the head projections that are there.
  AttentionConfig TalkingHeads() const {
    const std::string prefix = prefix_ + kTalking + place_.base + "/";
    const Shape q = RequiredShape(config_, prefix + "q/kernel", 3), v = RequiredShape(config_, prefix + "v/kernel", 3);
    const std::string logits = prefix + "logits/kernel", weights = prefix + "weights/kernel";
    const bool mixes_logits = config_.HasTensor(logits), mixes_weights = config_.HasTensor(weights);
    const int64_t h_k = q[1], h_v = v[1], h = mixes_logits ? RequiredShape(config_, logits, 2)[1] : h_k;
    config_.CheckShape("d_model, h_k, d_k", prefix + "q/kernel", {d_model_, h_k, q[2]});
    config_.CheckShape("d_model, h_k, d_k", prefix + "k/kernel", {d_model_, h_k, q[2]});
    config_.CheckShape("d_model, h_v, d_v", prefix + "v/kernel", {d_model_, h_v, v[2]});
    config_.CheckShape("h_v, d_v, d_model", prefix + "y/kernel", {h_v, v[2], d_model_});
    if (mixes_logits) config_.CheckShape("h_k, h", logits, {h_k, h});
    if (mixes_weights) config_.CheckShape("h, h_v", weights, {h, h_v});
    if (!mixes_weights && h != h_v) {
      config_.FailAt("h, h_v", "there is no tensor '", weights, "', but ", h, " heads of the softmax and ", h_v,
                     " of values");
    }
    AttentionConfig layer = AttentionConfig::TalkingHeads(d_model_, h_k, h, h_v, q[2], v[2]);
    layer.mixing = {.P_l = mixes_logits, .P_w = mixes_weights};
    ReadDynamic(prefix, layer);
    return layer;
  }

  void ReadDynamic(const std::string& prefix, AttentionConfig& layer) const {
    const std::set<std::string> named = NamedDynamic();
    for (const char* side : {"logits", "weights"}) {
      int count = 0;
      while (count < 3 && config_.HasTensor(DynamicTensor(prefix, side, count))) ++count;
      if (count == 0) continue;  // they are dropped there where no projection is
      const bool is_logits = std::string(side) == "logits";
      const Shape shape = is_logits ? Shape({d_model_, layer.h_k, layer.h}) : Shape({d_model_, layer.h, layer.h_v});
      for (int i = 0; i < count; ++i) config_.CheckShape("dynamic", DynamicTensor(prefix, side, i), shape);
      if (!(is_logits ? layer.mixing.P_l : layer.mixing.P_w)) {
        config_.FailAt("dynamic", "there is no tensor '", prefix, side, "/kernel' beside '",
                       DynamicTensor(prefix, side, 0), "'");
      }
      int found = 0;
      for (const DynamicRow& row : kDynamic) {
        if (std::string(side) != row.side || (count < 2 && named.count(row.theirs) == 0)) continue;
        layer.mixing.*row.field = true;
        ++found;
      }
      if (found != count) {
        FailField(ErrorKind::kData, "dynamic", "is needed: ", config_.source(), " does not say of what '",
                  DynamicTensor(prefix, side, 0), "' is the projection; Xl,Ml,Xw,Mw or fewer do");
      }
    }
  }

  // "x2l", …: by the option, else by the configuration.
  std::set<std::string> NamedDynamic() const {
    std::set<std::string> named;
    if (config_.Has("dynamic")) {
      for (const std::string& ours : Split(config_.String("dynamic", ""), ',')) {
        const auto row = std::find_if(std::begin(kDynamic), std::end(kDynamic),
                                      [&ours](const DynamicRow& one) { return ours == one.ours; });
        if (row == std::end(kDynamic)) config_.FailAt("dynamic", Quoted(ours), " is not one of Xl, Ml, Xw, Mw");
        named.insert(row->theirs);
      }
      return named;
    }
    const MeshBinding bound = Find(std::string(kTalking) + place_.base, kDynamicProjections);
    if (bound.value == nullptr) return named;
    if (!bound.value->is_array()) config_.FailAt(bound.key, "must be a list, but is ", Name(bound.value->type()));
    for (const Json& name : bound.value->AsArray()) {
      const bool known = std::any_of(std::begin(kDynamic), std::end(kDynamic),
                                     [&name](const DynamicRow& one) { return name == Json(one.theirs); });
      if (!known) config_.FailAt(bound.key, Excerpt(name.Dump()), " is not one of 'x2l', 'm2l', 'x2w', 'm2w'");
      named.insert(name.AsString());
    }
    return named;
  }

  // Logits are not scaled: 1/sqrt(d_k) is in q's initial values.
  void CheckScale() const {
    for (const std::string& name : {std::string(place_.base), std::string(kTalking) + place_.base}) {
      const MeshBinding folded = Find(name, "fold_scaling_into_initializer");
      if (folded.value != nullptr) config_.MustBe(folded.key, true);
    }
  }

  // A class over the encoder's output calls the constructor of its parent, the self-attention of the same kind, which
  // gin configures too: what is said of the parent holds, unless the child's own line says else. (Of
  // relative_attention_type it does always: the constructor passes it.)
  MeshBinding Find(const std::string& name, const char* member) const {
    const MeshBinding own = FindBinding(config_, place_.stack, StrCat(name, ".", member));
    const std::string_view child = kMeshEncoderDecoder.base;
    if (config_.Says(own.key) || !name.ends_with(child)) return own;
    const std::string parent = name.substr(0, name.size() - child.size()) + kMeshEncoderSelf.base;
    return FindBinding(config_, place_.stack, StrCat(parent, ".", member));
  }

  const PublishedConfig& config_;
  const MeshPlace& place_;
  int64_t d_model_;
  std::string prefix_;  // of the layer's tensors
};

}  // namespace

std::string BlockPrefix(const std::string& stack, int64_t block) {
  char number[32];
  std::snprintf(number, sizeof number, "%03lld", static_cast<long long>(block));
  return StrCat(stack, "/block_", number, "/");
}

MeshBinding FindBinding(const PublishedConfig& config, const std::string& stack, const std::string& selector) {
  const std::string scoped = StrCat(stack, "/", selector);
  if (config.Says(scoped)) return {scoped, config.Find(scoped)};
  return {selector, config.Find(selector)};
}

const Shape& RequiredShape(const PublishedConfig& config, const std::string& tensor, int rank) {
  const Shape* const shape = config.FindShape(tensor);
  if (shape == nullptr) config.FailAt(tensor, "there is no such tensor");
  if (shape->rank() != rank || std::any_of(shape->begin(), shape->end(), [](int64_t size) { return size < 1; })) {
    config.FailAt(tensor, "is ", *shape, ", not of ", rank, " dimensions of 1 or more");
  }
  return *shape;
}

const Shape& RelativeBiasShape(const PublishedConfig& config, const std::string& stack) {
  const std::string layer = BlockPrefix(stack, 0) + "layer_000/", end = "SelfAttention/relative_attention_bias";
  const bool plain = config.HasTensor(layer + kMeshEncoderSelf.base + "/q");
  return RequiredShape(config, layer + (plain ? "" : kTalking) + end, 2);
}

AttentionConfig ReadMeshAttention(const PublishedConfig& config, const MeshPlace& place, int64_t d_model) {
  return LayerReader(config, place, d_model).Read();
}

std::string MeshAttentionClass(const AttentionConfig& layer, const MeshPlace& place) {
  return StrCat(IsPlain(layer) ? "" : kTalking, place.base);
}

bool HasMeshAttentionRow(const PublishedRow& row, const AttentionConfig& layer) {
  const std::string_view ours = row.ours, theirs = row.theirs;
  if ((theirs.find(kTalking) == std::string_view::npos) != IsPlain(layer)) return false;
  const bool second = theirs.ends_with("_dynamic_1/kernel");
  if (ours.ends_with(".P_Ml")) return second == layer.mixing.P_Xl;
  if (ours.ends_with(".P_Mw")) return second == layer.mixing.P_Xw;
  return true;
}

void AddMeshAttention(const AttentionConfig& layer, const MeshPlace& place, int64_t buckets, Json* bindings) {
  const std::string prefix = StrCat(place.stack, "/", MeshAttentionClass(layer, place), ".");
  const auto add = [&](const char* member, Json value) { bindings->Set(prefix + member, std::move(value)); };
  if (IsPlain(layer)) {
    add("num_heads", layer.h);
    add("key_value_size", layer.d_k);
  } else {
    // Two sides of one name and size have no projection between them.
    const auto heads = [](const char* name, int64_t count) {
      return Json::MakeArray({Json::MakeArray({name, count})});
    };
    add("key_heads_dims", heads(layer.mixing.P_l ? "key_heads" : "heads", layer.h_k));
    add("softmax_heads_dims", heads("heads", layer.h));
    add("value_heads_dims", heads(layer.mixing.P_w ? "value_heads" : "heads", layer.h_v));
    add("key_size", layer.d_k);
    add("value_size", layer.d_v);
    Json dynamic = Json::MakeArray();
    for (const DynamicRow& row : kDynamic) {
      if (layer.mixing.*row.field) dynamic.Append(row.theirs);
    }
    add(kDynamicProjections, dynamic.AsArray().empty() ? Json() : dynamic);
  }
  if (buckets == 0) return;
  add("relative_attention_type", "bias_shared");
  add("relative_attention_num_buckets", buckets);
}

}  // namespace crosstalk
