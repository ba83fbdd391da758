// A forward pass that gradients can be taken of, and what all forward passes take.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/models/bindings/c/crosstalk.h"
#include "crosstalk/models/bindings/c/given.h"
#include "crosstalk/models/bindings/c/handles.h"
#include "crosstalk/models/model.h"
#include "crosstalk/nn/module.h"

namespace crosstalk::c {

struct PassOptions {
  bool training = false;
  uint64_t seed = 1;
  int64_t step = 0;

  ForwardContext context() const;
};
const FieldTable<PassOptions>& PassFields();

class PassObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kPass;
  PassObject() : Object(kKind) {}

  std::shared_ptr<Object> owner;  // of the parameters, whose gradients the pass fills in and empties
  const Module* module = nullptr;
  std::vector<NamedVariable> inputs;   // those that need gradients
  std::vector<NamedVariable> outputs;  // none once gradients were taken
};

// The outputs as a list, and where `pass` is not null the pass, which keeps them.
void GivePass(std::vector<NamedVariable> outputs, std::shared_ptr<PassObject> made, ct_tensors** to, ct_pass** pass);

}  // namespace crosstalk::c
