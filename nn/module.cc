#include "crosstalk/nn/module.h"

#include <algorithm>
#include <set>
#include <utility>

#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

// Whether the pattern, in which * matches any characters, is all of `text`.
bool MatchesWhole(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  size_t star = std::string_view::npos, resume = 0;  // where to go on if the last * matches one character more
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// Whether the path, or a module that it is in, matches.
bool MatchesPath(std::string_view pattern, std::string_view path) {
  return pattern.empty() || MatchesWhole(pattern, path) || MatchesWhole(std::string(pattern) + ".*", path);
}

// The paths of the parameters and of the modules that they are in.
std::vector<std::string> PathsOf(const std::vector<NamedParameter>& parameters) {
  std::set<std::string> paths;
  for (const NamedParameter& parameter : parameters) {
    for (size_t dot = parameter.name.find('.'); dot != std::string::npos; dot = parameter.name.find('.', dot + 1)) {
      paths.insert(parameter.name.substr(0, dot));
    }
    paths.insert(parameter.name);
  }
  return {paths.begin(), paths.end()};
}

}  // namespace

Module::Module(const Initializer& init) : init_(init) {
  const bool first = init_.modules_->modules.emplace(path(), this).second;
  CROSSTALK_CHECK(first, "module: the path \"", path(),
                  "\" has a module already, which would start with the same values; give this one a name of its own, "
                  "with Child or Initializer::At");
}

Module::~Module() { init_.modules_->modules.erase(path()); }

void Module::CheckName(std::string_view name) const {
  CROSSTALK_CHECK(!name.empty() && name.find('.') == std::string_view::npos, "module: \"", name,
                  "\" is not a name: it must not be empty, nor hold a dot (dots join the names of nested modules)");
  for (const Entry& entry : entries_) {
    CROSSTALK_CHECK(entry.name != name, "module: \"", name, "\" is registered twice");
  }
}

Variable Module::AddParameter(std::string_view name, const Shape& shape, const InitialValues& values,
                              const Shape& matrix_shape) {
  CheckName(name);
  return AddParameter(name, init_.At(name).Make(shape, values), matrix_shape);
}

Variable Module::AddParameter(std::string_view name, Tensor value, const Shape& matrix_shape) {
  CheckName(name);
  CROSSTALK_CHECK(value.defined(), "module: parameter \"", name, "\" has no value");
  Shape matrix = matrix_shape;
  if (matrix.rank() == 0 && value.rank() == 2) matrix = value.shape();
  CROSSTALK_CHECK(matrix.rank() == 0 || (matrix.rank() == 2 && matrix.NumElements() == value.num_elements()),
                  "module: parameter \"", name, "\" of shape ", value.shape(), " cannot be seen as a matrix ", matrix);
  Variable variable(value.Contiguous(), Variable::RequiresGrad::kYes);
  entries_.push_back({.name = std::string(name), .module = nullptr, .value = variable, .matrix_shape = matrix});
  return variable;
}

Variable Module::AddWeight(std::string_view name, const Shape& shape, const InitialValues& values,
                           const Shape& matrix_shape) {
  const Variable weight = AddParameter(name, shape, values, matrix_shape);
  entries_.back().weight = true;
  return weight;
}

Variable Module::AddVector(std::string_view name, const Shape& shape, const InitialValues& values) {
  const Variable vector = AddParameter(name, shape, values);
  entries_.back().matrix_shape = {};
  return vector;
}

void Module::AddModule(std::string_view name, std::shared_ptr<Module> module) {
  CheckName(name);
  CROSSTALK_CHECK(module != nullptr, "module: \"", name, "\" is no module");
  module->registered_ = true;
  entries_.push_back({.name = std::string(name), .module = std::move(module), .value = {}, .matrix_shape = {}});
}

void Module::CheckAllRegistered() const {
  const std::string prefix = path().empty() ? "" : path() + ".";
  const auto& modules = init_.modules_->modules;
  for (auto at = modules.lower_bound(prefix); at != modules.end() && at->first.starts_with(prefix); ++at) {
    CROSSTALK_CHECK(at->second == this || at->second->registered_, "module: \"", at->first, "\" was made under \"",
                    path(), "\" but not registered, so its parameters would be missing; make it a Child<…>");
  }
}

void Module::Collect(const std::string& prefix, std::vector<const Module*>& seen,
                     std::vector<NamedParameter>* parameters) const {
  if (std::find(seen.begin(), seen.end(), this) != seen.end()) return;
  seen.push_back(this);
  for (const Entry& entry : entries_) {
    const std::string path = prefix.empty() ? entry.name : prefix + "." + entry.name;
    if (entry.module != nullptr) {
      entry.module->Collect(path, seen, parameters);
    } else if (parameters != nullptr) {
      parameters->push_back({path, entry.value, entry.matrix_shape, entry.trainable});
    }
  }
}

std::vector<NamedParameter> Module::Parameters() const {
  CheckAllRegistered();
  std::vector<const Module*> seen;
  std::vector<NamedParameter> parameters;
  Collect("", seen, &parameters);
  return parameters;
}

std::vector<const Module*> Module::Modules() const {
  std::vector<const Module*> seen;
  Collect("", seen, nullptr);
  return seen;
}

int64_t Module::NumParameters() const {
  int64_t count = 0;
  for (const NamedParameter& parameter : Parameters()) count += parameter.value.value().num_elements();
  return count;
}

void Module::ZeroGrad() const {
  for (const NamedParameter& parameter : Parameters()) {
    if (parameter.value.requires_grad()) parameter.value.ZeroGrad();
  }
}

int64_t Module::SetTrainableUnder(const std::string& prefix, std::string_view pattern, Trainable trainable) {
  int64_t matches = 0;
  for (Entry& entry : entries_) {
    const std::string name = prefix.empty() ? entry.name : prefix + "." + entry.name;
    if (entry.module != nullptr) {
      matches += entry.module->SetTrainableUnder(name, pattern, trainable);
    } else if (MatchesPath(pattern, name)) {
      entry.trainable = trainable == Trainable::kYes;
      const Variable::RequiresGrad requires_grad =
          entry.trainable ? Variable::RequiresGrad::kYes : Variable::RequiresGrad::kNo;
      if ((requires_grad == Variable::RequiresGrad::kYes) != entry.value.requires_grad()) {
        entry.value.SetRequiresGrad(requires_grad);
      }
      ++matches;
    }
  }
  return matches;
}

void Module::SetTrainable(std::string_view path, Trainable trainable) {
  if (SetTrainableUnder("", path, trainable) > 0) return;
  std::set<std::string> parts;
  for (const NamedParameter& parameter : Parameters()) parts.insert(Split(parameter.name, '.')[0]);
  Fail(ErrorKind::kUsage, "there is no parameter ", Quoted(path), ", nor any under that path",
       DidYouMean(path, PathsOf(Parameters())), "; the model's parts are ", Join({parts.begin(), parts.end()}, ", "));
}

void Module::RoundWeights() {
  for (Entry& entry : entries_) {
    if (entry.module != nullptr) {
      entry.module->RoundWeights();
      continue;
    }
    entry.trainable = false;
    entry.value.SetRequiresGrad(Variable::RequiresGrad::kNo);
    if (entry.weight && entry.value.dtype() == DType::kFloat32) entry.value.SetValue(Rounded(entry.value.value()));
  }
}

RandomKey ForwardContext::DropoutKey(std::string_view site) const {
  const uint32_t stream = use == 0 ? StreamId(site) : StreamId(StrCat(site, "#", use));
  // Micro-batches take streams apart by an odd multiplier, which is one-to-one on 32 bits.
  return {.seed = seed, .stream = stream ^ (micro_batch * 0x9E3779B1u), .step = step};
}

}  // namespace crosstalk
