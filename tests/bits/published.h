// tests/bits/published_bits.txt: short trainings by their options, and the sha256 of the model that each gives on
// every machine.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {

#define CROSSTALK_NEEDS_SOURCE() \
  if (std::getenv("CROSSTALK_SOURCE") == nullptr) \
  GTEST_SKIP() << "run by `make test`, which says where the sources " \
                  "are"

// A row of the file: its own options, and the sum.
struct PublishedRow {
  std::string name;
  std::vector<std::string> options;  // all, with those of every row that it does not give itself
  std::string sum;

  // The value of an option; `otherwise` where it is not given.
  std::string Get(const std::string& option, const std::string& otherwise = "") const {
    const auto found = std::find(options.begin(), options.end(), option);
    return found == options.end() ? otherwise : *(found + 1);
  }
};

// `options` with others' values in place of their own, and without those of value "".
inline std::vector<std::string> WithOptions(std::vector<std::string> options,
                                            const std::vector<std::pair<std::string, std::string>>& others) {
  for (const auto& [option, value] : others) {
    const auto found = std::find(options.begin(), options.end(), option);
    if (found != options.end()) options.erase(found, found + 2);
    if (!value.empty()) options.insert(options.end(), {option, value});
  }
  return options;
}

struct PublishedBits {
  std::string head;  // the lines above the rows
  std::vector<PublishedRow> rows;

  static std::string Path() { return std::string(std::getenv("CROSSTALK_SOURCE")) + "/tests/bits/published_bits.txt"; }

  PublishedBits() {
    std::vector<std::string> always;
    for (const std::string& line : Split(ReadBytes(Path()), '\n')) {
      const std::vector<std::string> words = Split(line, ' ');
      if (line.starts_with("--")) {
        rows.push_back({line, words, ""});
        for (size_t i = 0; i + 1 < always.size(); i += 2) {
          if (rows.back().Get(always[i]).empty()) {
            rows.back().options.insert(rows.back().options.end(), {always[i], always[i + 1]});
          }
        }
      } else if (rows.empty()) {
        head += line + "\n";
        if (words[0] == "always") always.assign(words.begin() + 1, words.end());
      } else if (line.starts_with("  ")) {
        rows.back().sum = words.back();
      } else if (!line.empty()) {
        ADD_FAILURE() << Path() << ": what is " << line << "?";
      }
    }
  }

  void Write() const {
    std::string text = head;
    for (const PublishedRow& row : rows) text += StrCat(row.name, "\n  ", row.sum, "\n");
    PutFile(Path(), text);
  }
};

}  // namespace crosstalk
