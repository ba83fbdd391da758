// What a function of its arguments alone returned for those it has seen: plans that every step of a training or of a
// generation asks for again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace crosstalk {

// Arguments as bytes, of which no two lists have the same.
class MemoKey {
 public:
  explicit MemoKey(std::string_view text = {}) {
    Add(static_cast<int64_t>(text.size()));
    bytes_ += text;
  }
  MemoKey& Add(int64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    return *this;
  }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// For one thread: a memo is thread_local. It forgets everything when it holds kMost values.
template <class Value>
class Memo {
 public:
  // make() is called where the key is new.
  template <class Make>
  std::shared_ptr<const Value> Get(const MemoKey& key, const Make& make) {
    if (const auto found = values_.find(key.bytes()); found != values_.end()) return found->second;
    auto value = std::make_shared<const Value>(make());
    if (values_.size() >= kMost) values_.clear();
    values_.emplace(key.bytes(), value);
    return value;
  }

 private:
  static constexpr size_t kMost = 512;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view bytes) const { return std::hash<std::string_view>()(bytes); }
  };
  std::unordered_map<std::string, std::shared_ptr<const Value>, Hash, std::equal_to<>> values_;
};

}  // namespace crosstalk
