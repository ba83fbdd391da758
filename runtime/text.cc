#include "crosstalk/runtime/text.h"

#include <algorithm>
#include <cstdint>

namespace crosstalk {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

std::string NearestName(std::string_view name, const std::vector<std::string>& names) {
  std::string nearest;
  size_t nearest_distance = SIZE_MAX;
  for (const std::string& candidate : names) {
    // Levenshtein's distance, one row of the table at a time.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j <= candidate.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        const size_t replaced = diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < nearest_distance) {
      nearest_distance = row.back();
      nearest = candidate;
    }
  }
  return nearest_distance <= std::max<size_t>(2, name.size() / 2) ? nearest : "";
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}

}  // namespace crosstalk
