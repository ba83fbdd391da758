// Every kept input of tests/fuzz/corpus through its target: seeds, what the fuzzer has found worth keeping, and each
// fault that an input has once shown, under a name that says which.
#include "tests/fuzz/fuzz.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iostream>
#include <set>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk::fuzz {
namespace futest {

struct Target {
  const char* name;  // of tests/fuzz/NAME_target.cc and tests/fuzz/corpus/NAME
  void (*run)(std::string_view input);
};
void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

constexpr Target kTargets[] = {{"c_interface", FuzzCInterface},
                               {"command_line", FuzzCommandLine},
                               {"config", FuzzConfig},
                               {"corpus", FuzzCorpus},
                               {"einsum", FuzzEinsum},
                               {"json", FuzzJson},
                               {"numpy", FuzzNumpy},
                               {"published", FuzzPublished},
                               {"run_folder", FuzzRunFolder},
                               {"safetensors", FuzzSafetensors},
                               {"tasks", FuzzTasks},
                               {"tensor_bundle", FuzzTensorBundle},
                               {"tokenizer", FuzzTokenizer},
                               {"tokenizer_folder", FuzzTokenizerFolder}};

namespace fs = std::filesystem;

constexpr double kMaxSeconds = 20;  // of processor time for one input, under sanitizers and on a slow machine

std::string CorpusFolder() {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  return std::string(source == nullptr ? "." : source) + "/tests/fuzz/corpus";
}

class FuzzTest : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzTest, NoKeptInputIsAFinding) {
  SetNumThreads(1);
  if (fs::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 0);  // runs are synchronised to the disk
  const std::string folder = CorpusFolder() + "/" + GetParam().name;
  const std::vector<std::string> names = ListDirectory(folder);
  EXPECT_GE(names.size(), 5u) << folder;
  for (const std::string& name : names) {
    std::cout << "  " << GetParam().name << "/" << name << std::endl;  // the last one is that of a crash
    const std::string input = ReadFile(folder + "/" + name);
    const std::clock_t start = std::clock();
    try {
      GetParam().run(input);
    } catch (const std::exception& error) {
      ADD_FAILURE() << folder << "/" << name << ": " << error.what();
    }
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kMaxSeconds) << folder << "/" << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzTest, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return info.param.name; });

TEST(FuzzTargetsTest, EachHasItsFileAndItsInputs) {
  std::set<std::string> targets, files, folders;
  for (const Target& target : kTargets) targets.insert(target.name);
  for (const std::string& name : ListDirectory(CorpusFolder())) folders.insert(name);
  for (const std::string& name : ListDirectory(CorpusFolder() + "/..")) {
    const size_t end = name.rfind("_target.cc");
    if (end != std::string::npos) files.insert(name.substr(0, end));
  }
  EXPECT_EQ(files, targets);
  EXPECT_EQ(folders, targets);
}

}  // namespace futest
}  // namespace crosstalk::fuzz
