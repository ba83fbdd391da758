// The pages of the course: their tables have every exercise. tests/sessions/course.session runs their programs.
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

// "the sum of all points" of the index.
TEST(CoursePagesTest, TheIndexHasTheSumOfAllPoints) {
  int points = 0;
  for (const course::Exercise& exercise : course::Exercises()) points += exercise.points;
  std::ostringstream sum;
  sum << course::Exercises().size() << " exercises, " << points << " points";
  EXPECT_NE(Contents(Root() / "examples/course/README.md").find(sum.str()), std::string::npos) << sum.str();
}

}  // namespace course_pages_test
