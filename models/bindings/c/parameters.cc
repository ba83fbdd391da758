#include "crosstalk/models/bindings/c/parameters.h"

#include <memory>

#include "crosstalk/models/bindings/c/call.h"
#include "crosstalk/models/bindings/c/handles.h"
#include "crosstalk/models/bindings/c/tensors.h"

namespace crosstalk::c {

std::vector<NamedTensor> ParametersOf(const Module& module) {
  std::vector<NamedTensor> named;
  for (const NamedParameter& parameter : module.Parameters()) {
    named.push_back({parameter.name, parameter.value.value()});
  }
  return named;
}

}  // namespace crosstalk::c

extern "C" {

ct_status ct_describe(const void* handle, const char** json) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(json, "json");
    const auto object = FindObject(handle, "handle");
    const Use use(*object, Access::kShared);
    GiveText(object->Describe().Dump(), json);
  });
}

ct_status ct_parameters(const void* handle, ct_tensors** parameters) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(parameters, "parameters");
    const auto object = FindObject(handle, "handle");
    const Use use(*object, Access::kShared);
    GiveHandle(std::make_shared<TensorsObject>(object->Parameters()), parameters);
  });
}

}  // extern "C"
