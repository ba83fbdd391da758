#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "crosstalk/models/tasks/task.h"
#include "tests/support/messages.h"
#include "tests/support/task_cases.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace race_test {

using testing::Contains;
using testing::MessageOf;

constexpr const char* kArticle =
    R"({"article": "It rained.", "id": "high1.txt", "questions": ["It was _ .", "Why?"],)"
    R"( "options": [["wet", "dry", "hot", "red"], ["Clouds.", "Sun.", "Cats.", "Dogs."]], "answers": ["A", "D"]})";

class RaceTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, std::string_view bytes) {
    WriteTaskFile(directory_.path(), "RACE/dev/" + name, bytes);
  }
  std::vector<TaskRow> Read(TaskSplit split = TaskSplit::kDev) {
    return ReadTask("race", directory_ / "RACE/dev", split);
  }
  std::string Refusal(std::string_view bytes) {
    Write("high/1.txt", bytes);
    return MessageOf([&] { Read(); }, ErrorKind::kData);
  }

  TempDir directory_;
};

TEST_F(RaceTest, BothSchoolsAreReadFromTheirFolders) {
  Write("high/1.txt", kArticle);
  Write("middle/1.txt", kArticle);
  Write("middle/.hidden", "x");
  const TaskType& type = FindTask("race");
  EXPECT_EQ(FindTaskFile(type, directory_.path(), TaskSplit::kDev), directory_ / "RACE/dev");
  EXPECT_EQ(FindTaskFile(type, directory_ / "RACE", TaskSplit::kDev), directory_ / "RACE/dev");
  const auto rows = Read();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].id, "high1.txt-0");
  EXPECT_EQ(rows[0].group, "high");
  EXPECT_EQ(rows[3].id, "middle1.txt-1");
  EXPECT_EQ(rows[3].source, "middle/1.txt, question 1");
  ASSERT_EQ(rows[0].choices.size(), 4u);
  EXPECT_EQ(rows[0].first, "It rained.");
  EXPECT_EQ(rows[0].choices[1].second, "It was dry .") << "instead of the blank";
  EXPECT_EQ(rows[1].choices[3].second, "Why? Dogs.") << "after a question";
  EXPECT_EQ(rows[1].choices[3].answer, "D");
  EXPECT_EQ(rows[1].label, 3);
  EXPECT_EQ(rows[0].input,
            "race question: It was _ . choice1: wet choice2: dry choice3: hot choice4: red article: It rained.");
  EXPECT_EQ(rows[1].targets, std::vector<std::string>{"choice4"});
  EXPECT_EQ(type.answer_of_text(type, rows[1], " choice4"), "D");
  EXPECT_EQ(type.answer_of_text(type, rows[1], "Dogs."), "Dogs.");
  ExpectRoundTrip(type, rows, SomePredictions(type, rows), directory_.path());
  EXPECT_EQ(type.write(type, rows, SomePredictions(type, rows), TaskSplit::kDev)[0].contents,
            "{\n  \"high1.txt-0\": \"A\",\n  \"high1.txt-1\": \"B\",\n  \"middle1.txt-0\": \"C\",\n"
            "  \"middle1.txt-1\": \"D\"\n}\n");
}

TEST_F(RaceTest, OneSchoolsFolderIsReadByItself) {
  Write("middle/7.txt", kArticle);
  EXPECT_EQ(Read().size(), 2u);
  EXPECT_EQ(ReadTask("race", directory_ / "RACE/dev/middle", TaskSplit::kDev)[0].id, "middle7.txt-0");
}

TEST_F(RaceTest, BrokenFilesAreNamed) {
  const std::string good = kArticle;
  const auto with = [&](const std::string& from, const std::string& to) {
    return std::string(good).replace(good.find(from), from.size(), to);
  };
  EXPECT_TRUE(Contains(Refusal(with("\"A\", \"D\"", "\"A\", \"E\"")), "high/1.txt: answers: element 1 is none of"));
  EXPECT_TRUE(Contains(Refusal(with("\"A\", \"D\"", "\"A\"")), "high/1.txt: answers: 1 elements for 2 questions"));
  EXPECT_TRUE(Contains(Refusal(with(", \"Dogs.\"", "")), "high/1.txt: options: element 1 is no array of 4"));
  EXPECT_TRUE(Contains(Refusal(with("\"Why?\"", "3")), "high/1.txt: questions: element 1 must be a string"));
  EXPECT_TRUE(Contains(Refusal("{}"), "high/1.txt: article"));
  EXPECT_TRUE(Contains(Refusal("x"), "high/1.txt: byte"));
  EXPECT_TRUE(Contains(Refusal(""), "high/1.txt: the file is empty"));
  EXPECT_TRUE(
      Contains(Refusal(R"({"article": "a", "questions": [")" + std::string(50'000, '_') +
                       R"("], "options": [["a", "b", "c", ")" + std::string(50'000, 'd') + R"("]], "answers": ["A"]})"),
               "high/1.txt, question 0: the rows up to here are more than"));
  Write("high/1.txt", kArticle);
  Write("high/2.json", kArticle);
  EXPECT_TRUE(Contains(MessageOf([&] { Read(); }, ErrorKind::kData), "high/2.json: is not one of RACE's"));
}

TEST_F(RaceTest, ATestSetMayHaveNoAnswers) {
  Write("high/1.txt", R"({"article": "a", "questions": ["q"], "options": [["a", "b", "c", "d"]]})");
  EXPECT_FALSE(Read(TaskSplit::kTest)[0].labelled);
  EXPECT_TRUE(Contains(MessageOf([&] { Read(); }, ErrorKind::kData), "answers"));
}

}  // namespace race_test
}  // namespace crosstalk
