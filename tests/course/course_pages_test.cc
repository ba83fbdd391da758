// The pages of the course: they quote what a program prints, their tables have every exercise, and every
// program is short.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "examples/course/checker/checker.h"
#include "tests/support/shell.h"

namespace course_pages_test {

namespace fs = std::filesystem;

fs::path Root() {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  return source == nullptr ? "." : source;
}

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> Files(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(Root() / folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Of a program in examples/course of the build that this test is part of.
std::string Output(const std::string& program) {
  const fs::path path = fs::read_symlink("/proc/self/exe").parent_path() / "../../examples/course" / program;
  const crosstalk::ShellResult run = crosstalk::RunShell("'" + path.string() + "'");
  EXPECT_EQ(run.status, 0) << path << "\n" << run.output;
  return run.output;
}

TEST(CoursePagesTest, WhatAPageQuotesIsWhatItsProgramPrints) {
  for (const fs::path& program : Files("examples/course", ".cc")) {
    const std::string name = program.stem();
    const std::string page = Contents(Root() / "examples/course" / (name + ".md"));
    const std::string begin = "```\n$ build/examples/course/" + name + "\n";
    const size_t at = page.find(begin);
    ASSERT_NE(at, std::string::npos) << name << ".md does not quote its program";
    const std::string quoted = page.substr(at + begin.size());
    EXPECT_EQ(quoted.substr(0, quoted.find("```")), Output(name)) << name;
  }
}

TEST(CoursePagesTest, EveryChapterHasAPageADrawingAProgramAndExercises) {
  const std::string index = Contents(Root() / "examples/course/README.md");
  std::set<std::string> chapters;
  for (const fs::path& page : Files("examples/course", ".md")) {
    if (page.stem() == "README") continue;
    const std::string name = page.stem(), text = Contents(page);
    chapters.insert(name.substr(0, 1));
    EXPECT_NE(index.find("(" + name + ".md)"), std::string::npos) << name << " is not in the index";
    EXPECT_NE(text.find("](images/"), std::string::npos) << name << " has no drawing";
    EXPECT_TRUE(fs::exists(Root() / "examples/course" / (name + ".cc"))) << name;
    int exercises = 0;
    for (const course::Exercise& exercise : course::Exercises()) {
      if (exercise.id[0] != name[0]) continue;
      ++exercises;
      const std::string row =
          "| " + exercise.id + " | " + exercise.title + " | " + std::to_string(exercise.points) + " |";
      EXPECT_NE(text.find(row), std::string::npos) << name << " has no row " << row;
    }
    EXPECT_GE(exercises, 3) << name;
    EXPECT_LE(exercises, 5) << name;
  }
  EXPECT_EQ(chapters.size(), 8u);
}

TEST(CoursePagesTest, ProgramsHaveAtMost120Lines) {
  for (const fs::path& program : Files("examples/course", ".cc")) {
    const std::string text = Contents(program);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 120) << program;
  }
}

// Light and dark in one file.
TEST(CoursePagesTest, DrawingsFollowTheReadersColours) {
  for (const fs::path& drawing : Files("examples/course/images", ".svg")) {
    EXPECT_NE(Contents(drawing).find("prefers-color-scheme:dark"), std::string::npos) << drawing;
  }
}

// "the sum of all points" of the index.
TEST(CoursePagesTest, TheIndexHasTheSumOfAllPoints) {
  int points = 0;
  for (const course::Exercise& exercise : course::Exercises()) points += exercise.points;
  std::ostringstream sum;
  sum << course::Exercises().size() << " exercises, " << points << " points";
  EXPECT_NE(Contents(Root() / "examples/course/README.md").find(sum.str()), std::string::npos) << sum.str();
}

}  // namespace course_pages_test
