#include "crosstalk/models/interop/names.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {

const std::vector<const PublishedForm*>& PublishedForms() {
  static const std::vector<const PublishedForm*> forms = [] {
    std::vector<const PublishedForm*> all = {&kPublishedT5,         &kPublishedMt5,      &kPublishedUmt5,
                                             &kPublishedBert,       &kPublishedAlbert,   &kPublishedRoberta,
                                             &kPublishedXlmRoberta, &kPublishedCamembert};
    for (const PublishedForm& decoder : kPublishedDecoders) all.push_back(&decoder);
    return all;
  }();
  return forms;
}

std::vector<const PublishedForm*> FormsOf(std::string_view model, PublishedFormat format) {
  std::vector<const PublishedForm*> forms = {&kPublishedMeshT5};
  if (format == PublishedFormat::kHuggingFace) forms = PublishedForms();
  std::erase_if(forms, [&](const PublishedForm* form) { return model != form->model; });
  return forms;
}

namespace {

constexpr int64_t kMostNumber = 1'000'000;

constexpr size_t kPaddedDigits = 3;  // of {z}

// The number at the start of `text`, plain digits that begin with 0 only if there are `fewest`, and what follows it.
std::optional<std::pair<int64_t, std::string_view>> ReadNumber(std::string_view text, size_t fewest) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits < fewest || digits > 7 || (digits > fewest && text[0] == '0')) return std::nullopt;
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + digits, number);
  if (number > kMostNumber) return std::nullopt;
  return std::pair(number, text.substr(digits));
}

int64_t Product(const Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product = SaturatingProduct(product, shape[i]);
  return product;
}

}  // namespace

std::optional<int64_t> MatchPattern(std::string_view pattern, std::string_view name, int64_t inner_layers) {
  int64_t i = -1, group = -1;
  while (!pattern.empty()) {
    if (pattern[0] != '{') {
      if (name.empty() || name[0] != pattern[0]) return std::nullopt;
      pattern.remove_prefix(1);
      name.remove_prefix(1);
      continue;
    }
    const char which = pattern[1];
    pattern.remove_prefix(3);
    const auto number = ReadNumber(name, which == 'z' ? kPaddedDigits : 1);
    if (!number) return std::nullopt;
    name = number->second;
    if (which == 'g') {
      group = number->first;
    } else if (which == 'j') {
      if (number->first >= inner_layers) return std::nullopt;
      i = group * inner_layers + number->first;
    } else {
      i = number->first;
    }
  }
  if (!name.empty()) return std::nullopt;
  return i;
}

std::string ExpandPattern(std::string_view pattern, int64_t i, int64_t inner_layers) {
  std::string name;
  while (!pattern.empty()) {
    if (pattern[0] != '{') {
      name += pattern[0];
      pattern.remove_prefix(1);
      continue;
    }
    const char which = pattern[1];
    const std::string number = std::to_string(which == 'g' ? i / inner_layers : which == 'j' ? i % inner_layers : i);
    if (which == 'z' && number.size() < kPaddedDigits) name.append(kPaddedDigits - number.size(), '0');
    name += number;
    pattern.remove_prefix(3);
  }
  return name;
}

PublishedNames::PublishedNames(const PublishedForm& form, const ModelConfig* model)
    : form_(&form), inner_layers_(model == nullptr ? 1 : model->inner_layers.value_or(1)) {
  for (const PublishedPart& part : form.parts) {
    for (const PublishedTensor& tensor : part.tensors) {
      PublishedRow row = {StrCat(part.ours, tensor.ours), StrCat(part.theirs, tensor.theirs), tensor.layout};
      if (model == nullptr || form.has_row == nullptr || form.has_row(row, *model)) rows_.push_back(std::move(row));
    }
  }
}

std::vector<PublishedName> PublishedNames::NamesOf(std::string_view path) const {
  std::vector<PublishedName> names;
  for (const PublishedRow& row : rows_) {
    const std::optional<int64_t> i = MatchPattern(row.ours, path, inner_layers_);
    if (i) names.push_back({ExpandPattern(row.theirs, *i, inner_layers_), row.layout});
  }
  if (names.empty()) names.push_back({StrCat(kExtensionPrefix, path), Layout::kSame});
  return names;
}

std::vector<PublishedName> PublishedNames::PathsOf(std::string_view name) const {
  std::vector<PublishedName> paths;
  for (const PublishedRow& row : rows_) {
    const std::optional<int64_t> i = MatchPattern(row.theirs, name, inner_layers_);
    if (i) paths.push_back({ExpandPattern(row.ours, *i, inner_layers_), row.layout});
  }
  return paths;
}

bool PublishedNames::IsWithoutEffect(std::string_view name) const {
  return std::any_of(form_->without_effect.begin(), form_->without_effect.end(),
                     [&](const char* pattern) { return MatchPattern(pattern, name, inner_layers_).has_value(); });
}

NamePrefix PublishedNames::PrefixOf(const std::vector<std::string>& names, const std::string& source) const {
  NamePrefix prefix;
  const auto begin_with = [&](std::string_view own) {
    return std::count_if(names.begin(), names.end(), [&](const std::string& name) {
      return name.starts_with(prefix.wrappers) &&
             std::string_view(name).substr(prefix.wrappers.size()).starts_with(own);
    });
  };
  for (bool more = true; more;) {
    more = false;
    for (const char* wrapper : {"module.", "_orig_mod."}) {
      const auto count = begin_with(wrapper);
      if (count == 0) continue;
      if (count != std::ssize(names)) {
        Fail(ErrorKind::kData, source, ": ", count, " of ", names.size(), " tensors' names begin with ",
             prefix.wrappers, wrapper, ", which a wrapper of the module has put there; all of them must, or none");
      }
      prefix.wrappers += wrapper;
      more = true;
    }
  }
  prefix.lacks_own = form_->prefix[0] != '\0' && begin_with(form_->prefix) == 0;
  return prefix;
}

std::string PublishedNames::Usual(std::string_view name, const NamePrefix& prefix) const {
  name.remove_prefix(std::min(name.size(), prefix.wrappers.size()));
  if (IsExtension(name)) return std::string(name);
  std::string usual = prefix.lacks_own ? StrCat(form_->prefix, name) : std::string(name);
  for (const PublishedAlias& alias : form_->aliases) {
    const std::string_view end = alias.end;
    if (usual.size() > end.size() && usual.ends_with(end)) {
      return usual.substr(0, usual.size() - end.size()) + alias.usual_end;
    }
  }
  return usual;
}

int PublishedNames::PartsOf(std::string_view name) const {
  int parts = 0;
  while (!PathsOf(PartName(name, parts)).empty()) ++parts;
  return parts;
}

std::optional<std::pair<std::string, int64_t>> WholeAndPart(const std::string& name) {
  const size_t bracket = name.rfind('[');
  if (bracket == std::string::npos) return std::nullopt;
  const auto part = ReadNumber(std::string_view(name).substr(bracket + 1), 1);
  if (!part || part->second != "]") return std::nullopt;
  return std::pair(name.substr(0, bracket), part->first);
}

std::vector<NamedTensor> JoinParts(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> joined;
  std::map<std::string, std::map<int64_t, Tensor>> wholes;
  for (const NamedTensor& tensor : tensors) {
    if (const auto part = WholeAndPart(tensor.name)) {
      wholes[part->first].emplace(part->second, tensor.tensor);
    } else {
      joined.push_back(tensor);
    }
  }
  for (const auto& [name, parts] : wholes) {
    const Tensor& first = parts.begin()->second;
    const auto differs = [&](const auto& part) { return part.second.shape() != first.shape(); };
    if (std::any_of(parts.begin(), parts.end(), differs)) {
      for (const auto& [k, part] : parts) joined.push_back({PartName(name, static_cast<int>(k)), part});
      continue;
    }
    const int last = first.rank() - 1;
    const int64_t size = first.size(last);
    Shape shape = first.shape();
    shape[last] = size * std::ssize(parts);
    Tensor whole = Tensor::Empty(shape, first.dtype());
    for (const auto& [k, part] : parts) whole.Slice(last, k * size, (k + 1) * size).CopyFrom(part);
    joined.push_back({name, std::move(whole)});
  }
  return joined;
}

Tensor PartOf(const Tensor& whole, int part, int parts) {
  const int last = whole.rank() - 1;
  const int64_t size = whole.size(last) / parts;
  return whole.Slice(last, part * size, (part + 1) * size);
}

std::optional<Tensor> FromPublished(const Tensor& theirs, Layout layout, const Shape& ours) {
  switch (layout) {
    case Layout::kSame:
      if (theirs.shape() != ours) return std::nullopt;
      return theirs;
    case Layout::kFlat:
      if (theirs.rank() != 1 || theirs.size(0) != Product(ours, 0, ours.rank())) return std::nullopt;
      return theirs.Reshape(ours);
    case Layout::kRows: {
      if (theirs.rank() != 2 || ours.rank() != 2 || theirs.size(1) != ours[1]) return std::nullopt;
      if (theirs.size(0) > ours[0] || ours[0] - theirs.size(0) >= 128) return std::nullopt;
      if (theirs.shape() == ours) return theirs;
      Tensor padded = Tensor::Zeros(ours, theirs.dtype());
      padded.Slice(0, 0, theirs.size(0)).CopyFrom(theirs);
      return padded;
    }
    case Layout::kColumns:
      if (theirs.rank() != 2) return std::nullopt;
      return FromPublished(theirs.Transpose(0, 1).Contiguous(), Layout::kRows, ours);
    case Layout::kMatrix:
    case Layout::kTransposed:
      break;
  }
  if (theirs.rank() != 2) return std::nullopt;
  const Tensor matrix = layout == Layout::kMatrix ? theirs : theirs.Transpose(0, 1);
  for (int split = 1; split < ours.rank(); ++split) {
    if (Product(ours, 0, split) != matrix.size(0) || Product(ours, split, ours.rank()) != matrix.size(1)) continue;
    return matrix.Contiguous().Reshape(ours);
  }
  return std::nullopt;
}

Shape PublishedShape(Layout layout, const NamedParameter& parameter, int64_t ids) {
  const Shape& ours = parameter.value.shape();
  switch (layout) {
    case Layout::kSame:
      return ours;
    case Layout::kFlat:
      return {ours.NumElements()};
    case Layout::kRows:
      return {ids, ours[1]};
    case Layout::kColumns:
      return {ours[1], ids};
    case Layout::kMatrix:
      return parameter.matrix_shape;
    case Layout::kTransposed:
      break;
  }
  return {parameter.matrix_shape[1], parameter.matrix_shape[0]};
}

Tensor ToPublished(const Tensor& ours, Layout layout, const NamedParameter& parameter, int64_t ids) {
  const Tensor dense = ours.Contiguous();
  switch (layout) {
    case Layout::kRows:
      return dense.Slice(0, 0, ids).Contiguous();
    case Layout::kColumns:
      return dense.Slice(0, 0, ids).Transpose(0, 1).Contiguous();
    case Layout::kTransposed:
      return dense.Reshape(parameter.matrix_shape).Transpose(0, 1).Contiguous();
    case Layout::kSame:
    case Layout::kFlat:
    case Layout::kMatrix:
      break;
  }
  return dense.Reshape(PublishedShape(layout, parameter, ids));
}

}  // namespace crosstalk
