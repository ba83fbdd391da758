// The objects of the handles of tensors and lists.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/bindings/c/crosstalk.h"
#include "crosstalk/models/bindings/c/handles.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk::c {

enum class Writable { kNo, kYes };

class TensorObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kTensor;
  explicit TensorObject(Tensor elements, Writable may_write = Writable::kYes)
      : Object(kKind), tensor(std::move(elements)), writable(may_write) {}

  const Tensor tensor;
  const Writable writable;
};

class TensorsObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kTensors;
  TensorsObject() : Object(kKind) {}
  explicit TensorsObject(const std::vector<NamedTensor>& named);

  struct Entry {
    std::string name;
    std::shared_ptr<TensorObject> tensor;
  };
  const Entry* Find(std::string_view name) const;

  std::vector<Entry> entries;
};

// The host's memory as a tensor, or a usage error that says what of it cannot be. `release` is called once: when
// nothing refers to the memory any more, but not if this, or giving out its handle, fails.
void AdoptArray(const ct_array& array, std::function<void()> release, ct_tensor** to);

// The tensors of a list, which the call uses for itself. Null is an empty list.
std::vector<NamedTensor> TensorsOf(const ct_tensors* tensors, const char* argument);

}  // namespace crosstalk::c
