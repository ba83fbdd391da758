// The results of a pure function for arguments that it has seen: plans that every step of a training or of a
// generation asks for again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "crosstalk/runtime/parallel.h"

namespace crosstalk {

// Arguments as bytes, of which no two lists have the same. A usual key takes no memory but its own.
class MemoKey {
 public:
  explicit MemoKey(std::string_view text = {}) {
    Add(static_cast<int64_t>(text.size()));
    Append(text.data(), text.size());
  }
  MemoKey& Add(int64_t number) {
    Append(&number, sizeof(number));
    return *this;
  }
  std::string_view bytes() const { return long_.empty() ? std::string_view(short_, size_) : long_; }

 private:
  void Append(const void* bytes, size_t count) {
    if (long_.empty() && size_ + count > sizeof(short_)) long_.assign(short_, size_);
    if (!long_.empty()) {
      long_.append(static_cast<const char*>(bytes), count);
    } else if (count > 0) {
      std::memcpy(short_ + size_, bytes, count);
      size_ += count;
    }
  }

  char short_[488];
  size_t size_ = 0;
  std::string long_;
};

// For all threads. It forgets everything when it holds kMost values. One that lives as long as the process is
// `static auto* const memo = new Memo<Value>`: a host's threads may compute until the end, so that nothing destroys it.
// It is never thread_local: glibc ends the process where a destructor of a thread cannot be registered for want of
// memory.
template <class Value>
class Memo {
 public:
  // make() is called where the key is new; of several threads that make one value at a time the first one's stays.
  template <class Make>
  std::shared_ptr<const Value> Get(const MemoKey& key, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = values_.find(key.bytes()); found != values_.end()) return found->second;
    }
    auto value = std::make_shared<const Value>(make());
    const std::lock_guard lock(mutex_);
    if (values_.size() >= kMost) values_.clear();
    return values_.emplace(key.bytes(), std::move(value)).first->second;
  }

 private:
  static constexpr size_t kMost = 512;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view bytes) const { return std::hash<std::string_view>()(bytes); }
  };
  SpinLock mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Value>, Hash, std::equal_to<>> values_;
};

}  // namespace crosstalk
