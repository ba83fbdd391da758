#include "crosstalk/nn/module.h"

#include <algorithm>
#include <utility>

#include "crosstalk/nn/modules_by_path.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

Module::Module(const Initializer& init) : init_(init) {
  const bool first = init_.modules_->modules.emplace(path(), this).second;
  CROSSTALK_CHECK(first, "module: the path \"", path(),
                  "\" has a module already, which would start with the same values; give this one a name of its own, "
                  "with Child or Initializer::At");
}

Module::~Module() { init_.modules_->modules.erase(path()); }

void Module::CheckName(std::string_view name) const {
  CROSSTALK_CHECK(!name.empty() && name.find('.') == std::string_view::npos, "module: \"", name,
                  "\" is no name: it must not be empty, nor hold a dot (dots join the names of nested modules)");
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
                     std::vector<NamedParameter>& parameters) const {
  if (std::find(seen.begin(), seen.end(), this) != seen.end()) return;
  seen.push_back(this);
  for (const Entry& entry : entries_) {
    const std::string path = prefix.empty() ? entry.name : prefix + "." + entry.name;
    if (entry.module != nullptr) {
      entry.module->Collect(path, seen, parameters);
    } else {
      parameters.push_back({path, entry.value, entry.matrix_shape, entry.trainable});
    }
  }
}

std::vector<NamedParameter> Module::Parameters() const {
  CheckAllRegistered();
  std::vector<const Module*> seen;
  std::vector<NamedParameter> parameters;
  Collect("", seen, parameters);
  return parameters;
}

int64_t Module::NumParameters() const {
  int64_t count = 0;
  for (const NamedParameter& parameter : Parameters()) count += parameter.value.value().num_elements();
  return count;
}

void Module::ZeroGrad() const {
  for (const NamedParameter& parameter : Parameters()) parameter.value.ZeroGrad();
}

int64_t Module::SetTrainableUnder(const std::string& prefix, std::string_view path, Trainable trainable) {
  int64_t matches = 0;
  for (Entry& entry : entries_) {
    const std::string name = prefix.empty() ? entry.name : prefix + "." + entry.name;
    if (entry.module != nullptr) {
      matches += entry.module->SetTrainableUnder(name, path, trainable);
    } else if (path.empty() || name == path || (name.starts_with(path) && name[path.size()] == '.')) {
      entry.trainable = trainable == Trainable::kYes;
      ++matches;
    }
  }
  return matches;
}

void Module::SetTrainable(std::string_view path, Trainable trainable) {
  CROSSTALK_CHECK(SetTrainableUnder("", path, trainable) > 0, "module: there is no parameter \"", path,
                  "\", nor any under that path");
}

RandomKey ForwardContext::DropoutKey(std::string_view site) const {
  const uint32_t stream = use == 0 ? StreamId(site) : StreamId(StrCat(site, "#", use));
  // Micro-batches take streams apart by an odd multiplier, which is one-to-one on 32 bits.
  return {.seed = seed, .stream = stream ^ (micro_batch * 0x9E3779B1u), .step = step};
}

}  // namespace crosstalk
