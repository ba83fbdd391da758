// Every program in examples/ runs to its end and prints what its comment promises.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "tests/support/shell.h"

namespace examples_test {

namespace fs = std::filesystem;

// Runs examples/NAME of the build that this program is part of; its output, both streams.
std::string RunExample(const std::string& name, const std::string& arguments, int expected_status = 0) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "../../examples" / name;
  EXPECT_TRUE(fs::exists(program)) << program;
  const crosstalk::ShellResult run = crosstalk::RunShell("'" + program.string() + "' " + arguments);
  EXPECT_EQ(run.status, expected_status) << run.output;
  return run.output;
}

TEST(ExamplesTest, TheWholeStackLearnsToFindTheMarkedRow) {
  const std::string output = RunExample("whole_stack", "");
  std::smatch first, last;
  ASSERT_TRUE(std::regex_search(output, first, std::regex("step +0 .*error ([0-9.]+)"))) << output;
  ASSERT_TRUE(std::regex_search(output, last, std::regex("step 300 .*error ([0-9.]+)"))) << output;
  EXPECT_LT(std::stod(last[1]), 0.2 * std::stod(first[1])) << output;
}

TEST(ExamplesTest, TheEmbeddedTrainingKeepsItsWeights) {
  std::string folder = (fs::temp_directory_path() / "crosstalk-example-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string output = RunExample("embed_training", "10 '" + folder + "/model.safetensors'");
  EXPECT_NE(output.find("after a trip through"), std::string::npos) << output;
  EXPECT_TRUE(fs::exists(folder + "/model.safetensors"));
  fs::remove_all(folder);
}

TEST(ExamplesTest, TheProgramInCTrainsAndItsModelWrites) {
  std::string folder = (fs::temp_directory_path() / "crosstalk-example-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string output = RunExample("embed_c", "'" + folder + "/run' 20");
  EXPECT_NE(output.find("Y[2, 5, 32] begins with"), std::string::npos) << output;
  EXPECT_NE(output.find("\"step\": 20"), std::string::npos) << output;
  EXPECT_NE(output.find("\nIt was"), std::string::npos) << output;
  EXPECT_TRUE(fs::exists(folder + "/run/model.safetensors"));
  fs::remove_all(folder);
}

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The list of examples/README.md and the first lines of the programs number them alike, from 1 on.
TEST(ExamplesTest, AllAreNumberedInOneReadingOrder) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  const fs::path root = source == nullptr ? "." : source;
  const std::string readme = Contents(root / "examples/README.md");
  std::set<int> numbers;
  int programs = 0;
  for (const auto& entry : fs::directory_iterator(root / "examples")) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".c") continue;
    ++programs;
    const std::string name = entry.path().filename().string(), text = Contents(entry.path());
    std::smatch number;
    ASSERT_TRUE(std::regex_search(text, number, std::regex("^// ([0-9]+)\\. "))) << name << " does not begin so";
    EXPECT_EQ(number.position(), 0) << name;
    numbers.insert(std::stoi(number[1]));
    EXPECT_NE(readme.find("\n" + number[1].str() + ". [`examples/" + name + "`]"), std::string::npos) << name;
  }
  EXPECT_EQ(std::ssize(numbers), programs);
  EXPECT_EQ(*numbers.rbegin(), programs);
}

TEST(ExamplesTest, TheFilesOfTheStoriesTaskAreWhatItsProgramWrites) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  const fs::path kept = fs::path(source == nullptr ? "." : source) / "examples/stories";
  std::string folder = (fs::temp_directory_path() / "crosstalk-example-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  RunExample("stories_task", "'" + folder + "/stories'");
  for (const char* name : {"train.tsv", "dev.tsv", "test.tsv"}) {
    EXPECT_TRUE(Contents(kept / name) == Contents(folder + "/stories/" + name))
        << name << " is another: build/examples/stories_task examples/stories";
  }
  fs::remove_all(folder);
}

TEST(ExamplesTest, AFileThatCannotBeWrittenIsAnErrorWithItsExitCode) {
  const std::string output = RunExample("embed_training", "1 /nowhere/model.safetensors", 1);
  EXPECT_NE(output.find("/nowhere/model.safetensors"), std::string::npos) << output;
}

TEST(ExamplesTest, TheLanguageModelLearnsATextAndWrites) {
  std::string file = (fs::temp_directory_path() / "crosstalk-text-XXXXXX").string();
  const int descriptor = mkstemp(file.data());
  ASSERT_GE(descriptor, 0);
  for (int i = 0; i < 60; ++i) ASSERT_EQ(write(descriptor, "the cat sat on the mat, ", 24), 24);
  close(descriptor);
  const std::string output = RunExample("language_model", "'" + file + "' 40");
  std::smatch first, last;
  ASSERT_TRUE(std::regex_search(output, first, std::regex("step +0 +([0-9.]+) nats"))) << output;
  ASSERT_TRUE(std::regex_search(output, last, std::regex("step +39 +([0-9.]+) nats"))) << output;
  EXPECT_LT(std::stod(last[1]), 0.3 * std::stod(first[1])) << output;
  fs::remove(file);
  EXPECT_NE(RunExample("language_model", "/nowhere/text.txt", 1).find("/nowhere/text.txt: cannot be read"),
            std::string::npos);
}

// By both caches, of a T5 that has hardly learnt. The correct one gives on text the loss that the training measured
// with all positions at once; its tasks' answers are there.
TEST(ExamplesTest, ThePublishedDefectIsMeasured) {
  std::string folder = (fs::temp_directory_path() / "crosstalk-defect-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const fs::path build = fs::read_symlink("/proc/self/exe").parent_path() / "../..";
  const char* source = std::getenv("CROSSTALK_SOURCE");
  const std::string tasks = (fs::path(source == nullptr ? "." : source) / "examples").string();
  const std::string command = "'" + (build / "crosstalk").string() + "' ";
  const std::string quiet = " > /dev/null 2>&1";
  ASSERT_EQ(std::system(
                (command + "train --model t5 --tokenizer bytes --attention dynamic --d-model 16 --heads 2 --d-ff 24 " +
                 "--layers 1 --input-length 32 --batch 4 --steps 2 --threads 1 --out '" + folder + "/t5'" + quiet)
                    .c_str()),
            0);
  const std::string on_text = RunExample("published_defect", "'" + folder + "/t5'");
  std::smatch both, measured;
  ASSERT_TRUE(std::regex_search(on_text, both, std::regex("correct ([0-9.]+), published ([0-9.]+)"))) << on_text;
  EXPECT_NE(both[1], both[2]);
  std::ifstream file(folder + "/t5/metrics.jsonl");
  const std::string metrics(std::istreambuf_iterator<char>(file), {});
  const std::string last = metrics.substr(metrics.rfind("\"eval\""));
  ASSERT_TRUE(std::regex_search(last, measured, std::regex("\"ln_ppl\": ([0-9.]+)"))) << metrics;
  EXPECT_NEAR(std::stod(both[1]), std::stod(measured[1]), 1e-4);
  ASSERT_EQ(std::system((command + "finetune --from '" + folder + "/t5' --task stories --task-data '" + tasks +
                         "' --input-length 32 --target-length 4 --batch 4 --steps 2 --threads 1 --out '" + folder +
                         "/run'" + quiet)
                            .c_str()),
            0);
  const std::string output = RunExample("published_defect", "'" + folder + "/run' '" + tasks + "'");
  EXPECT_TRUE(std::regex_search(output, std::regex("stories +[0-9.]+ +[0-9.]+ +[0-9]+ of 300"))) << output;
  EXPECT_NE(RunExample("published_defect", "", 2).find("usage"), std::string::npos);
  ASSERT_EQ(std::system(
                (command + "train --model t5 --tokenizer bytes --attention talking --d-model 16 --heads 2 --d-ff 24 " +
                 "--layers 1 --input-length 32 --batch 4 --steps 1 --threads 1 --out '" + folder + "/static'" + quiet)
                    .c_str()),
            0);
  EXPECT_NE(RunExample("published_defect", "'" + folder + "/static'", 1).find("--attention dynamic"),
            std::string::npos);
  fs::remove_all(folder);
}

TEST(ExamplesTest, ThePapersPseudocodeRuns) { EXPECT_NE(RunExample("paper_pseudocode", ""), ""); }

}  // namespace examples_test
