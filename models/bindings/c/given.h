// The members that a host gives of a configuration, as JSON text, by the tables of fields.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk::c {

class Given {
 public:
  // NULL is {}. Error(kUsage) for a text that is no object of JSON.
  explicit Given(const char* text);

  bool Has(const char* key) const { return object_.Find(key) != nullptr; }

  // Sets those that the table has a row for. Error(kUsage) of the field for a value that it does not take.
  template <typename Config>
  void Set(const FieldTable<Config>& table, Config& config) {
    for (const Field<Config>& field : table) {
      const Json::Object& members = object_.AsObject();
      for (size_t i = 0; i < members.size(); ++i) {
        if (!IsKeyOf(field, members[i].first)) continue;
        FindValue(field, object_);  // once
        field.set(config, members[i].second);
        read_[i] = true;
      }
    }
  }
  // Error(kUsage) of the first key that no table had.
  void CheckAllRead() const;

 private:
  Json object_;
  std::vector<bool> read_;
};

// All of a configuration over its defaults, by one table.
template <typename Config>
Config ReadGiven(const FieldTable<Config>& table, const char* text, Config config = {}) {
  Given given(text);
  given.Set(table, config);
  given.CheckAllRead();
  return config;
}

}  // namespace crosstalk::c
