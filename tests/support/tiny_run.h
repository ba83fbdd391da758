// A training run that takes a moment, for tests of the command: its options, and what the run folder holds.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_command.h"

namespace crosstalk {

inline std::vector<std::string> Joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// `crosstalk train` of a T5 of 11,000 parameters. `more` are options with one value each, or flags at the end; they
// replace those that are here.
inline std::vector<std::string> TinyTrain(const std::vector<std::string>& more = {}) {
  const std::vector<std::string> base = {"--model",        "t5", "--tokenizer",  "bytes", "--d-model", "16",
                                         "--heads",        "2",  "--d-ff",       "24",    "--layers",  "1",
                                         "--input-length", "16", "--batch",      "4",     "--steps",   "8",
                                         "--eval-batches", "1",  "--eval-every", "3",     "--threads", "1"};
  std::vector<std::string> words = {"train"};
  for (size_t i = 0; i < base.size(); i += 2) {
    if (std::find(more.begin(), more.end(), base[i]) == more.end()) words.insert(words.end(), {base[i], base[i + 1]});
  }
  return Joined(words, more);
}

inline std::string ReadBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Every path under a folder with the size and bytes of its files: what "nothing was overwritten" is checked by.
inline std::string Snapshot(const std::string& folder) {
  std::vector<std::string> entries;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    entries.push_back(entry.path().string() + "\n" + (entry.is_regular_file() ? ReadBytes(entry.path().string()) : ""));
  }
  std::sort(entries.begin(), entries.end());
  std::string all;
  for (const std::string& entry : entries) all += entry + "\n";
  return all;
}

}  // namespace crosstalk
