// Published folders that tests change, and the commands that read and write them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/command_checks.h"
#include "tests/support/parity.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {

using Tensors = std::map<std::string, Tensor>;

// A published folder to be changed.
struct Folder {
  Json config;
  Tensors tensors;
  HalfTensors halves;
};

inline Folder Load(const std::string& model) {
  Folder folder{ReadJsonFile(ParityFolder(model) + "/config.json"), {}, {}};
  for (const NamedTensor& one : ReadSafetensors(ParityFolder(model) + "/model.safetensors").tensors) {
    folder.tensors.emplace(one.name, one.tensor);
  }
  return folder;
}

inline std::vector<NamedTensor> ListOf(const Tensors& tensors) {
  std::vector<NamedTensor> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, tensor});
  return list;
}

inline void Store(const Folder& folder, const std::string& path) {
  std::filesystem::create_directories(path);
  WriteFileAtomically(path + "/config.json", folder.config.DumpPretty());
  WriteSafetensors(path + "/model.safetensors", ListOf(folder.tensors), {{"format", "pt"}}, folder.halves);
}

inline Tensor Counting(int64_t n) {
  std::vector<int64_t> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return Tensor::FromValues<int64_t>({1, n}, values);
}

class PublishedFolderTest : public ::testing::Test {
 protected:
  std::string In() const { return dir_ / "published"; }
  std::string Out() const { return dir_ / "exported"; }
  std::string Model() const { return dir_ / "model"; }

  CommandResult Import(const std::vector<std::string>& options = {}) {
    std::filesystem::remove_all(Model());
    return RunCommand(Joined({"import", In(), "--out", Model()}, options));
  }
  CommandResult Export(const std::vector<std::string>& options = {}) {
    std::filesystem::remove_all(Out());
    return RunCommand(Joined({"export", Model(), "--out", Out()}, options));
  }

  // The results of a model for the inputs of a file, in double unless the options say otherwise.
  TensorFile Forward(const std::string& model, const std::string& inputs, const std::vector<std::string>& options = {},
                     const std::string& precision = "double") {
    Succeeded(RunCommand(
        Joined({"forward", model, "--inputs", inputs, "--output", dir_ / "out.safetensors", "--precision", precision},
               options)));
    return ReadSafetensors(dir_ / "out.safetensors");
  }

  // In and out again: the same names, types and bytes.
  void ExpectRoundTrip() {
    Succeeded(Import());
    Succeeded(Export());
    EXPECT_EQ(ReadBytes(In() + "/config.json"), ReadBytes(Out() + "/config.json"));
    ExpectSameTensors(In(), Out());
  }

  static void ExpectSameTensors(const std::string& a, const std::string& b) {
    const TensorFileHeader before = ReadSafetensorsHeader(a + "/model.safetensors");
    const TensorFileHeader after = ReadSafetensorsHeader(b + "/model.safetensors");
    EXPECT_EQ(before.metadata, after.metadata);
    std::map<std::string, std::string> bytes;
    const std::string text = ReadBytes(a + "/model.safetensors"), again = ReadBytes(b + "/model.safetensors");
    const auto slice = [](const std::string& file, const TensorFileHeader& header, const TensorFileEntry& entry) {
      return entry.dtype + ToString(entry.shape) +
             file.substr(header.data_begin + entry.begin, entry.end - entry.begin);
    };
    for (const TensorFileEntry& entry : before.entries) bytes[entry.name] = slice(text, before, entry);
    ASSERT_EQ(before.entries.size(), after.entries.size());
    for (const TensorFileEntry& entry : after.entries) {
      EXPECT_TRUE(bytes[entry.name] == slice(again, after, entry)) << entry.name;
    }
  }
  void ExpectRefused(const std::vector<std::string>& words, const std::vector<std::string>& options = {}) {
    ExpectExit(Import(options), 3, words);
    EXPECT_FALSE(std::filesystem::exists(Model()));
  }

  TempDir dir_;
};

}  // namespace crosstalk
