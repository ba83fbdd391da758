#include "crosstalk/models/interop/published_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/nn/attention/identity.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/storage.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

// The usual names of a folder's tensors.
std::map<std::string, std::string> UsualNames(const PublishedFolder& folder, const PublishedNames& names,
                                              std::vector<std::string>* remarks) {
  std::vector<std::string> all;
  for (const auto& [name, entry] : folder.tensors()) all.push_back(name);
  const NamePrefix prefix = names.PrefixOf(all, folder.path());
  if (!prefix.wrappers.empty()) {
    remarks->push_back(StrCat(folder.path(), ": each tensor's name begins with ", prefix.wrappers,
                              ", which a wrapper of the module has put there; it is read without"));
  }
  std::map<std::string, std::string> originals;
  for (const std::string& original : all) {
    const auto [place, added] = originals.emplace(names.Usual(original, prefix), original);
    if (!added) {
      Fail(ErrorKind::kData, folder.path(), ": the tensors ", Quoted(place->second), " and ", Quoted(original),
           " are two names of one parameter");
    }
  }
  return originals;
}

// A folder's tensors by their usual names, each read when it is asked for. What NAME is in parts is NAME[0], NAME[1],
// ….
class FolderTensors {
 public:
  struct Place {
    std::string original;  // the name in the folder
    int part = 0, parts = 0;
    DType dtype;  // that it is read as
    Shape shape;
  };

  // Error(kData) for a tensor that cannot be cut into its parts.
  FolderTensors(const PublishedFolder& folder, const PublishedNames& names,
                const std::map<std::string, std::string>& originals)
      : folder_(folder) {
    for (const auto& [usual, original] : originals) {
      const PublishedTensorEntry& entry = folder.tensors().at(original);
      const DType dtype = entry.dtype == "I64" ? DType::kInt64 : entry.dtype == "I32" ? DType::kInt32 : DType::kFloat32;
      Place place = {original, 0, names.PartsOf(usual), dtype, entry.shape};
      if (place.parts == 0) {
        places_.emplace(usual, place);
        continue;
      }
      const int last = place.shape.rank() - 1;
      if (last < 0 || place.shape[last] % place.parts != 0) {
        Fail(ErrorKind::kData, folder.path(), ": tensor ", Quoted(original), " is ", place.shape, ", which are not ",
             place.parts, " equal parts");
      }
      place.shape[last] /= place.parts;
      for (; place.part < place.parts; ++place.part) places_.emplace(PartName(usual, place.part), place);
    }
  }

  const std::map<std::string, Place>& places() const { return places_; }
  TensorShapes Shapes() const {
    TensorShapes shapes;
    for (const auto& [usual, place] : places_) shapes.emplace(usual, place.shape);
    return shapes;
  }

  Tensor Read(const Place& place) const {
    if (place.parts == 0) return folder_.ReadTensor(place.original);
    // The parts of a tensor are asked for one after the other.
    if (cut_name_ != place.original) cut_ = folder_.ReadTensor(place.original);
    cut_name_ = place.original;
    return PartOf(cut_, place.part, place.parts);
  }

  // Whether two tensors, neither of which is a part, have the same values.
  bool AreSame(const std::string& one, const std::string& other) const {
    return folder_.AreSame(places_.at(one).original, places_.at(other).original);
  }

 private:
  const PublishedFolder& folder_;
  std::map<std::string, Place> places_;
  mutable std::string cut_name_;  // the tensor in parts that was read last
  mutable Tensor cut_;
};

// A tensor of so many bytes is given back to the system once its values have another layout, for memory in reserve
// counts as used; a smaller one makes room for the next.
constexpr int64_t kReleasedBytes = 32 << 20;

// The kind of attention that the layers of a multi-head model continue as, and the parameters that the folder lacks for
// it, by the last parts of their paths: they get their initial values.
struct Continuation {
  AttentionKind kind = AttentionKind::kMultihead;
  std::set<std::string_view> added = {};
};

// Parameters under their published names, in their layouts, as the model that is made of them asks for them.
class PublishedParameters : public StoredParameters {
 public:
  // Folder, names and tensors must be there until CheckRest has returned.
  PublishedParameters(const PublishedFolder& folder, const PublishedNames& names, const FolderTensors& tensors,
                      Continuation continuation)
      : StoredParameters({folder.path(), {}, {}}, folder.ConfigPath()),
        folder_(folder.path()),
        config_name_(folder.config_name()),
        names_(names),
        continuation_(std::move(continuation)),
        tensors_(tensors) {}

  Tensor Take(const std::string& path, const Shape& shape, DType dtype) override {
    const std::vector<PublishedName> names = names_.NamesOf(path);
    for (const PublishedName& name : names) {
      const auto found = tensors_.places().find(name.name);
      if (found == tensors_.places().end() || taken_.count(name.name) > 0) continue;
      const FolderTensors::Place& place = found->second;
      const Shape before = ShapeBefore(continuation_.kind, path, shape);
      const std::optional<Tensor> ours =
          IsFloating(place.dtype) ? FromPublished(tensors_.Read(place), name.layout, before) : std::nullopt;
      if (!ours) {
        Fail(ErrorKind::kData, folder_, ": tensor ", Quoted(name.name), " is ", place.dtype, place.shape,
             ", which does not fit ", path, before, " of the model that ", config_name_, " asks for");
      }
      taken_.emplace(name.name, path);
      if (place.shape.NumElements() * 4 >= kReleasedBytes) ReleaseCachedMemory();
      return ValuesAfter(continuation_.kind, path, ours->To(dtype));
    }
    if (continuation_.added.count(path.substr(path.rfind('.') + 1)) > 0) return {};
    Fail(ErrorKind::kData, folder_, ": has no tensor ", Quoted(names.front().name), ", for ", path, shape,
         " of the model that ", config_name_, " asks for");
  }

  // A tensor not taken must be a copy of a taken one, or without effect: then it is the result's.
  std::vector<NamedTensor> CheckRest() const {
    std::vector<NamedTensor> kept;
    for (const auto& [name, place] : tensors_.places()) {
      if (taken_.count(name) > 0) continue;
      if (names_.IsWithoutEffect(name)) {
        kept.push_back({name, tensors_.Read(place)});
        CheckCounts(name, kept.back().tensor);
      } else {
        CheckCopy(name, place);
      }
    }
    return kept;
  }

 private:
  void CheckCopy(const std::string& name, const FolderTensors::Place& place) const {
    for (const PublishedName& path : names_.PathsOf(name)) {
      for (const auto& [taken, of] : taken_) {
        if (of != path.name) continue;
        if (tensors_.AreSame(name, taken)) return;
        Fail(ErrorKind::kData, folder_, ": the tensors ", Quoted(taken), " and ", Quoted(name),
             " are one parameter of this model, but are not the same");
      }
    }
    Fail(ErrorKind::kData, folder_, ": tensor ", Quoted(name), " (", place.dtype, place.shape,
         ") belongs to no parameter of the model that ", config_name_, " asks for");
  }

  // A buffer of integers is the positions 0, 1, 2, …, or the segments 0, 0, …
  void CheckCounts(const std::string& name, const Tensor& tensor) const {
    if (IsFloating(tensor.dtype())) return;
    const bool counts = !name.ends_with("token_type_ids");
    const Tensor ids = tensor.Contiguous().To(DType::kInt64);
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      if (ids.data<int64_t>()[i] == (counts ? i : 0)) continue;
      Fail(ErrorKind::kData, folder_, ": tensor ", Quoted(name), " is not ", counts ? "0, 1, 2" : "0, 0, 0",
           ", …, but has ", ids.data<int64_t>()[i], " at ", i);
    }
  }

  std::string folder_, config_name_;
  const PublishedNames& names_;
  Continuation continuation_;
  const FolderTensors& tensors_;
  std::map<std::string, std::string> taken_;  // usual name → path
};

// The keys of generation_config.json that say how a text is written: settings of ours, which are given to a search.
void RemarkOnGeneration(const Json& generation, const std::string& path, std::vector<std::string>* remarks) {
  constexpr std::string_view kOther[] = {"_from_model_config",   "bos_token_id",      "decoder_start_token_id",
                                         "eos_token_id",         "output_attentions", "output_hidden_states",
                                         "output_scores",        "pad_token_id",      "return_dict_in_generate",
                                         "transformers_version", "use_cache"};
  std::vector<std::string> keys;
  for (const auto& [key, value] : generation.AsObject()) {
    const bool other = std::find(std::begin(kOther), std::end(kOther), key) != std::end(kOther);
    if (!other && !value.is_null()) keys.push_back(Excerpt(key));
  }
  if (!keys.empty()) remarks->push_back(StrCat(path, ": not used: ", Join(keys, ", "), "; a search is given its own"));
}

// Ours, as config.json says it: by the publishers' keys, or in our own words.
ModelConfig ReadConfiguration(const PublishedFolder& folder, const PublishedForm& form, const FolderTensors& tensors,
                              std::vector<std::string>* remarks) {
  const std::string source = folder.ConfigPath();
  if (const Json* own = folder.config().Find(kExtensionKey)) {
    const JsonReader reader(*own, source + ": " + kExtensionKey);
    if (reader.String("model") != form.model) {
      reader.FailAt("model", Quoted(reader.String("model")), " is not the ", form.model, " of model_type");
    }
    return ReadModelConfig(*own, source + ": " + kExtensionKey);
  }
  const TensorShapes shapes = tensors.Shapes();
  Json generation;
  if (const std::optional<std::string> text = folder.Contents(kGenerationConfigName)) {
    const std::string path = folder.FilePath(kGenerationConfigName);
    generation = ParseJson(*text, path);
    if (!generation.is_object()) Fail(ErrorKind::kData, path, ": is not an object");
    RemarkOnGeneration(generation, path, remarks);
  }
  const PublishedConfig config(
      folder.config(), source, shapes, generation,
      [&](const std::string& one, const std::string& other) { return !tensors.AreSame(one, other); });
  for (const char* key : {"pad_token_id", "decoder_start_token_id"}) {
    const Json* const there = generation.Find(key);
    if (there != nullptr && !there->is_null() && config.Has(key) && *there != *config.Find(key)) {
      Fail(ErrorKind::kData, folder.FilePath(kGenerationConfigName), ": ", key, ": is ", Excerpt(there->Dump()),
           ", but ", Excerpt(config.Find(key)->Dump()), " in ", folder.config_name());
    }
  }
  // Nothing below changes what a model computes in evaluation but by one of these.
  config.MustBe("quantization_config", Json());
  config.MustBe("pruned_heads", Json());
  return form.read(config);
}

Continuation Continue(const PublishedModelOptions& options, ModelConfig& model) {
  const std::vector<AttentionKind>& kinds = options.attention;
  const auto has = [&](AttentionKind kind) { return std::count(kinds.begin(), kinds.end(), kind) > 0; };
  const bool alike = kinds.size() == 1;
  CROSSTALK_CHECK_FIELD(alike || !has(AttentionKind::kDiffV2), "attention",
                        "diff-v2 has twice the softmax heads, which the others beside it have not");
  Continuation continuation = {alike ? kinds[0] : AttentionKind::kMultihead};
  const auto go_on = [&](AttentionKind kind, AttentionConfig& layer) {
    if (layer.h == 0) return;  // the model has none there
    if (kind == AttentionKind::kMultihead && !alike) return;
    const AttentionConfig before = layer;
    layer = ContinuedAs(kind, before);
    layer.mixing_init = options.mixing_init;
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (!IsPresent(projection, before) && IsPresent(projection, layer)) continuation.added.insert(projection.name());
    }
  };
  if (alike) {
    for (AttentionConfig* const layer : model.AttentionLayers()) go_on(kinds[0], *layer);
  } else {
    model.layer_kinds = kinds;
    size_t reached = 0;  // kinds that a layer has
    const auto list = [&](const AttentionConfig& all, int64_t layers, std::vector<AttentionConfig>& each) {
      if (all.h == 0) return;
      if (each.empty()) each.assign(static_cast<size_t>(layers), all);
      for (size_t i = 0; i < each.size(); ++i) go_on(kinds[i % kinds.size()], each[i]);
      reached = std::max(reached, each.size());
    };
    list(model.encoder_self, model.num_blocks(), model.encoder_self_layers);
    list(model.decoder_self, model.num_decoder_layers(), model.decoder_self_layers);
    list(model.encoder_decoder, model.num_decoder_layers(), model.encoder_decoder_layers);
    for (size_t i = reached; i < kinds.size(); ++i) {
      CROSSTALK_CHECK_FIELD(kinds[i] == AttentionKind::kMultihead, "attention", "kind ", i + 1, ", ", Name(kinds[i]),
                            ", has no layer: there are ", reached);
    }
  }
  OverKeysAlone(model.encoder_decoder);
  for (AttentionConfig& layer : model.encoder_decoder_layers) OverKeysAlone(layer);
  return continuation;
}

}  // namespace

PublishedModel LoadPublishedModel(const PublishedFolder& folder, const PublishedModelOptions& options) {
  const PublishedForm& form = folder.form();
  PublishedModel result;
  result.form = &form;
  // Which names are usual does not depend on the configuration, which in turn is held against the names.
  const PublishedNames usual(form, nullptr);
  const std::map<std::string, std::string> originals = UsualNames(folder, usual, &result.remarks);
  const FolderTensors tensors(folder, usual, originals);
  ModelConfig config;
  try {
    config = ReadConfiguration(folder, form, tensors, &result.remarks);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    Fail(ErrorKind::kData, folder.ConfigPath(), ": ", error.what());
  }
  const PublishedNames names(form, &config);
  const Continuation continuation = options.attention.empty() ? Continuation() : Continue(options, config);
  if (options.implementation) config.SetImplementation(*options.implementation);
  try {
    const auto parameters = std::make_shared<PublishedParameters>(folder, names, tensors, continuation);
    result.model = config.Make(Initializer(parameters, options.dtype));
    for (const NamedTensor& kept : parameters->CheckRest()) {
      result.record.without_effect.push_back({originals.at(kept.name), kept.tensor});
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    Fail(ErrorKind::kData, folder.ConfigPath(), ": ", error.what());
  }
  result.record.format = folder.format();
  result.record.config_text = folder.config_text();
  result.record.metadata = folder.metadata();
  for (const auto& [name, entry] : folder.tensors()) result.record.tensors.push_back({name, entry.dtype});
  return result;
}

}  // namespace crosstalk
