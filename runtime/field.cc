#include "crosstalk/runtime/field.h"

#include <algorithm>
#include <utility>

#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

// ParentOf of file_calls.h gives "." for a file of the working folder, where nothing is to be changed.
std::string PathFrom(const std::string& folder, const FieldOptions& options, const std::string& path) {
  const bool is_name = std::find(options.not_paths.begin(), options.not_paths.end(), path) != options.not_paths.end();
  return is_name || folder == "." || path.empty() || path[0] == '/' ? path : folder + "/" + path;
}

}  // namespace

Json ValueIn(const std::string& folder, const FieldOptions& options, const Json& value) {
  if (!options.is_path) return value;
  if (value.is_string()) return Json(PathFrom(folder, options, value.AsString()));
  if (!value.is_array()) return value;  // which the row refuses
  Json paths = Json::MakeArray();
  for (const Json& one : value.AsArray()) {
    paths.Append(one.is_string() ? Json(PathFrom(folder, options, one.AsString())) : one);
  }
  return paths;
}

namespace internal {

namespace {

// Whole numbers without an exponent.
std::string Text(double value) {
  return value == std::floor(value) && std::fabs(value) < 9.22e18 ? StrCat(static_cast<int64_t>(value)) : StrCat(value);
}

}  // namespace

void CheckNumber(const std::string& key, double value, const FieldRange& range) {
  CROSSTALK_CHECK_FIELD(std::isfinite(value), key, value, " is not a finite number");
  CROSSTALK_CHECK_FIELD(value >= range.low, key, Text(value), " is less than ", Text(range.low));
  CROSSTALK_CHECK_FIELD(value <= range.high, key, Text(value), " is more than ", Text(range.high));
}

void CheckChoice(const std::string& key, const std::string& value, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  FailField(ErrorKind::kUsage, key, Quoted(value), " is none of ", Join(choices, ", "), DidYouMean(value, choices));
}

void CheckText(const std::string& key, const std::string& value) {
  CROSSTALK_CHECK_FIELD(value.find('\0') == std::string::npos, key, Quoted(value), " has a NUL character in it");
}

void CheckKept(const std::string& key, const std::string& value) {
  constexpr size_t kLongest = 4096;  // as a path is
  CROSSTALK_CHECK_FIELD(value.size() <= kLongest, key, Quoted(value), " is longer than ", kLongest, " bytes");
  // JSON, which keeps configurations, has no other text.
  CROSSTALK_CHECK_FIELD(FindInvalidUtf8(value) == std::string::npos, key, Quoted(value),
                        " is not UTF-8 text; rename the file or folder, or make a link with another name to it");
}

void CheckType(const std::string& key, const Json& value, FieldType type) {
  const auto check = [&](bool holds, const char* what) {
    CROSSTALK_CHECK_FIELD(holds, key, "must be ", what, ", but is ", Name(value.type()));
  };
  switch (type) {
    case FieldType::kString:
    case FieldType::kChoice:
      return check(value.is_string(), "a string");
    case FieldType::kInt:
      return check(value.is_int(), "an integer");
    case FieldType::kDouble:
      return check(value.is_number(), "a number");
    case FieldType::kBool:
      return check(value.is_bool(), "true or false");
    case FieldType::kObject:
      return check(value.is_object(), "an object");
    case FieldType::kNames:
      return check(value.is_array(), "an array");
  }
}

}  // namespace internal
Given::Given(Json object) : object_(std::move(object)) {
  CROSSTALK_CHECK(object_.is_object(), "configuration: must be an object, but is ", Name(object_.type()));
  read_.resize(object_.AsObject().size());
}

void Given::CheckAllRead() const {
  for (size_t i = 0; i < read_.size(); ++i) {
    const std::string key = Excerpt(object_.AsObject()[i].first);
    CROSSTALK_CHECK_FIELD(read_[i], key, "is not a key that is known here", DidYouMean(key, known_));
  }
}

}  // namespace crosstalk
