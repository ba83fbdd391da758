// config.json of a published model, read by keys whose defaults are the library's, and held against the tensors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/shape.h"

namespace crosstalk {

// The shapes of a file's tensors, by their usual names.
using TensorShapes = std::map<std::string, Shape, std::less<>>;

class PublishedConfig {
 public:
  // Keeps pointers to both arguments.
  PublishedConfig(const Json& json, std::string source, const TensorShapes& tensors)
      : json_(&json), source_(std::move(source)), tensors_(&tensors) {}

  // A key that is missing or null has the fallback. Error(kData) of the key for another type or a value out of range.
  bool Has(std::string_view key) const;
  int64_t Int(std::string_view key, int64_t fallback, int64_t low, int64_t high) const;
  // A size: at least 1, at most 2^24.
  int64_t Size(std::string_view key, int64_t fallback) const { return Int(key, fallback, 1, 1 << 24); }
  double Double(std::string_view key, double fallback, double low, double high) const;
  bool Bool(std::string_view key, bool fallback) const;
  std::string String(std::string_view key, const std::string& fallback) const;
  const Json* Find(std::string_view key) const;
  // An id of the vocabulary.
  int32_t Token(std::string_view key, int64_t fallback, int64_t vocabulary) const;
  // `architectures`, or nothing.
  std::vector<std::string> Architectures() const;

  // Refuses a key that is there with another value than that: a choice which cannot be computed here.
  void MustBe(std::string_view key, const Json& value) const;

  const std::string& source() const { return source_; }
  bool HasTensor(std::string_view name) const { return FindShape(name) != nullptr; }
  // Of a tensor; null where there is none of that name.
  const Shape* FindShape(std::string_view name) const;
  // True where some tensor's name begins so.
  bool HasTensorsOf(std::string_view prefix) const;
  // The first of several names of one tensor that is there; the first of all where none is.
  const char* FirstTensor(std::initializer_list<const char*> names) const;
  // Error(kData) that names the keys unless the tensor is there and has this shape.
  void CheckShape(std::string_view keys, std::string_view tensor, const Shape& shape) const;
  // One dimension of a tensor that is there.
  int64_t TensorSize(std::string_view tensor, int dim) const;

  template <typename... Parts>
  [[noreturn]] void FailAt(std::string_view key, const Parts&... parts) const {
    Fail(ErrorKind::kData, source_, ": ", key, ": ", parts...);
  }

 private:
  const Json* json_;
  std::string source_;
  const TensorShapes* tensors_;
};

}  // namespace crosstalk
