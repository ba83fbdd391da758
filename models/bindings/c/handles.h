// Handles: numbers of objects, in a table that knows which are alive and of what kind each is. And the
// locks of objects, which a call holds while it uses them.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"

namespace crosstalk::c {

enum class Kind : uint8_t { kTensor = 1, kTensors, kAttention, kCache, kPass, kModel, kTraining };
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

  // Of ct_describe and ct_parameters: usage errors where the kind has none.
  virtual Json Describe() const;
  virtual std::vector<NamedTensor> Parameters() const;

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

}  // namespace crosstalk::c
