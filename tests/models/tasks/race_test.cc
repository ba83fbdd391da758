
#include "tests/support/task_cases.h"

namespace crosstalk::race_test {

constexpr const char* kArticle =
    R"({"article": "It rained.", "id": "high1.txt", "questions": ["It was _ .", "Why?"],)"
    R"( "options": [["wet", "dry", "hot", "red"], ["Clouds.", "Sun.", "Cats.", "Dogs."]], "answers": ["A", "D"]})";

class RaceTest : public TaskFileTest {
 protected:
  RaceTest() : TaskFileTest("unused") {}

  void Write(const std::string& name, std::string_view bytes) {
    WriteTaskFile(directory_.path(), "RACE/dev/" + name, bytes);
  }
  std::vector<TaskRow> ReadAll(TaskSplit split = kDev) { return ReadTask("race", directory_ / "RACE/dev", split); }
};

TEST_F(RaceTest, BothSchoolsAreReadFromTheirFolders) {
  for (const char* name : {"high/1.txt", "middle/1.txt"}) Write(name, kArticle);
  Write("middle/.hidden", "x");
  const TaskType& type = FindTask("race");
  EXPECT_EQ(FindTaskFile(type, directory_.path(), kDev), directory_ / "RACE/dev");
  EXPECT_EQ(FindTaskFile(type, directory_ / "RACE", kDev), directory_ / "RACE/dev");
  const auto rows = ReadAll();
  ASSERT_EQ(rows.size(), 4u);
  // A choice stands in the question's blank, or after the question.
  const std::string wet =
      "It rained. | A) It was wet . | B) It was dry . | C) It was hot . | D) It was red . | "
      "race question: It was _ . choice1: wet choice2: dry choice3: hot choice4: red article: It rained. "
      "| = choice1 | 0\n";
  const std::string why =
      "It rained. | A) Why? Clouds. | B) Why? Sun. | C) Why? Cats. | D) Why? Dogs. | "
      "race question: Why? choice1: Clouds. choice2: Sun. choice3: Cats. choice4: Dogs. article: It rained. "
      "| = choice4 | 3\n";
  EXPECT_EQ(Shown(type, rows), "high1.txt-0 of high | " + wet + "high1.txt-1 of high | " + why +
                                   "middle1.txt-0 of middle | " + wet + "middle1.txt-1 of middle | " + why);
  EXPECT_EQ(rows[3].source, "middle/1.txt, question 1");
  EXPECT_EQ(type.answer_of_text(type, rows[1], " choice4"), "D");
  EXPECT_EQ(type.answer_of_text(type, rows[1], "Dogs."), "Dogs.");
  ExpectRoundTrip(type, rows, SomePredictions(type, rows), directory_.path());
  EXPECT_EQ(type.write(type, rows, SomePredictions(type, rows), kDev)[0].contents,
            "{\n  \"high1.txt-0\": \"A\",\n  \"high1.txt-1\": \"B\",\n  \"middle1.txt-0\": \"C\",\n"
            "  \"middle1.txt-1\": \"D\"\n}\n");
  EXPECT_EQ(ReadTask("race", directory_ / "RACE/dev/middle", kDev)[0].id, "middle1.txt-0");
}

TEST_F(RaceTest, BrokenFilesAreNamed) {
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = kArticle;
    return text.replace(text.find(from), from.size(), to);
  };
  const Bytes cases = {
      {"an answer", with("\"A\", \"D\"", "\"A\", \"E\""), {"high/1.txt: answers: element 1 is none of"}},
      {"an answer too few", with("\"A\", \"D\"", "\"A\""), {"high/1.txt: answers: 1 elements for 2 questions"}},
      {"three options", with(", \"Dogs.\"", ""), {"high/1.txt: options: element 1 is no array of 4"}},
      {"a question", with("\"Why?\"", "3"), {"high/1.txt: questions: element 1 must be a string"}},
      {"no article", "{}", {"high/1.txt: article"}},
      {"no JSON", "x", {"high/1.txt: byte"}},
      {"nothing", "", {"high/1.txt: the file is empty"}},
      {"no answers", with(R"(, "answers": ["A", "D"])", ""), {"answers"}},
      {"blanks and options that would grow",
       R"({"article": "a", "questions": [")" + std::string(50'000, '_') + R"("], "options": [["a", "b", "c", ")" +
           std::string(50'000, 'd') + R"("]], "answers": ["A"]})",
       {"high/1.txt, question 0: the rows up to here are more than"}},
  };
  const auto read = [&](const std::string& bytes) { Write("high/1.txt", bytes), ReadAll(); };
  testing::ExpectRefused(cases, read, ErrorKind::kData);
  Write("high/1.txt", cases[7].input);
  EXPECT_FALSE(ReadAll(kTest)[0].labelled);
  Write("high/2.json", kArticle);
  testing::ExpectError([&] { read(kArticle); }, ErrorKind::kData, {"high/2.json: is not one of RACE's"});
}

}  // namespace crosstalk::race_test
