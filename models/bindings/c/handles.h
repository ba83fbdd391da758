// Handles: numbers of objects, in a table that knows which are alive and of what kind each is. And the
// locks of objects, which a call holds while it uses them.
#pragma once

#include <cxxabi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/models/bindings/c/crosstalk.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk::c {

enum class Kind : uint8_t {
  kTensor = 1,
  kTensors,
  kAttention,
  kCache,
  kPass,
  kModel,
  kTraining,
  kDataset,
  kBatches,
  kOptimizer
};
// "a tensor".
const char* Name(Kind kind);

using Lock = std::shared_mutex;

// The object of a handle. One that is part of another shares its lock.
class Object {
 public:
  explicit Object(Kind kind, std::shared_ptr<Lock> lock = std::make_shared<Lock>())
      : kind_(kind), lock_(std::move(lock)) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  Kind kind() const { return kind_; }
  const std::shared_ptr<Lock>& lock() const { return lock_; }

  // What ct_describe returns, and the module whose parameters ct_parameters does. Usage errors if the kind has none.
  virtual Json Describe() const;
  virtual const Module& module() const;

 private:
  Kind kind_;
  std::shared_ptr<Lock> lock_;
};

// A handle that nobody has yet: given back unless Take() hands it out.
class NewHandle {
 public:
  explicit NewHandle(std::shared_ptr<Object> object);
  ~NewHandle();
  NewHandle(const NewHandle&) = delete;
  NewHandle& operator=(const NewHandle&) = delete;
  void* Take();

 private:
  void* handle_;
};

template <typename CHandle>
void GiveHandle(std::shared_ptr<Object> object, CHandle** to) {
  *to = static_cast<CHandle*>(NewHandle(std::move(object)).Take());
}

// Usage errors for NULL, for what is no handle, was freed, or is of another kind; they call it `argument`.
std::shared_ptr<Object> FindObject(const void* handle, const char* argument);
std::shared_ptr<Object> FindObject(const void* handle, Kind kind, const char* argument);
template <typename T>
std::shared_ptr<T> Find(const void* handle, const char* argument) {
  return std::static_pointer_cast<T>(FindObject(handle, T::kKind, argument));
}

enum class Access { kShared, kAlone };

// While one lives, this thread's call uses the object. It waits for other threads; where this thread's calls around it,
// in whose callback it is, use the object otherwise, it is a usage error.
class [[nodiscard]] Use {
 public:
  Use(const Object& object, Access access);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  std::shared_ptr<Lock> lock_;
  Access access_;
  bool again_ = false;  // a call around it holds the lock
};

// What every function of crosstalk.h does around its work: a context of its own, errors as a status and the thread's
// last error, texts that outlive the call.

// Makes the exception that is being handled this thread's last error. Throws nothing, without memory too.
ct_status NoteError() noexcept;

// body(), with every exception as a status. A thread that is cancelled in a callback must be let go.
template <typename Body>
ct_status Call(const Body& body) {
  try {
    const ContextScope own{OpContext()};  // a callback's caller may have another
    body();
    return CT_OK;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return NoteError();
  }
}

template <typename T>
void CheckGiven(T* pointer, const char* name) {
  CROSSTALK_CHECK(pointer != nullptr, name, " is NULL");
}

// Keeps the text for this thread, and gives it. Either pointer may be null.
void GiveText(std::string text, const char** to, size_t* length = nullptr);

// What a host gives of a configuration, as JSON text; NULL is {}. Error(kUsage) for a text that is no object of JSON.
Given ParseGiven(const char* text);

// All of a configuration over its defaults, by one table.
template <typename Config>
Config ReadGiven(const FieldTable<Config>& table, const char* text, Config config = {}) {
  const Given given = ParseGiven(text);
  config = given.Over(table, std::move(config));
  given.CheckAllRead();
  return config;
}

// A forward pass that gradients can be taken of, and what all forward passes take.

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

  std::shared_ptr<Object> owner;       // of the module whose gradients the pass fills in and empties
  std::vector<NamedVariable> inputs;   // those that need gradients
  std::vector<NamedVariable> outputs;  // none once gradients were taken
};

// The outputs as a list, and where `pass` is not null the pass, which keeps them.
void GivePass(std::vector<NamedVariable> outputs, std::shared_ptr<PassObject> made, ct_tensors** to, ct_pass** pass);

// The object of a model's handle: one that was made or read, or that of a training.

struct ModelParts {
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;     // null: there is none
  std::string source;                             // the folder or checkpoint; empty: it was made
  std::optional<TrainingConfig> config = {};      // how it is trained, defaults not filled in; none: nobody knows
  std::shared_ptr<const TrainingData> data = {};  // of the configuration it was made by; null: not opened
  std::vector<std::string> remarks = {};          // on what is not read of its tokenizer: sentences
};

class ModelObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kModel;
  ModelObject(ModelParts made_of, std::shared_ptr<Lock> lock)
      : Object(kKind, std::move(lock)), parts(std::move(made_of)) {}

  Json Describe() const override;
  const Module& module() const override { return *parts.model; }
  // Error(kUsage) without one.
  const Tokenizer& RequireTokenizer() const;
  const TrainingConfig& RequireConfig() const;

  const ModelParts parts;
};

// The rows of a training's configuration with these keys.
FieldTable<TrainingConfig> TrainingFieldsNamed(const std::vector<std::string>& keys);

}  // namespace crosstalk::c
