// `crosstalk score` on real dev sets. tests/sessions/score.session has its rules.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "crosstalk/models/tasks/task.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace score_test {

using testing::Contains;

// What is right scores all there is to score.
TEST(ScoreTest, RightAnswersScoreFully) {
  const TempDir dir;
  const auto score = [&](const TaskType& type, const std::string& gold, const std::vector<std::string>& how) {
    return Succeeded(
        RunCommand(Joined({"score", "--task", type.name, "--json", "--gold", gold, "--predictions"}, how)));
  };
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) GTEST_SKIP() << "CROSSTALK_DATA is not set";
  for (const TaskType& type : TaskTypes()) {
    for (const char* folder : {"/glue", "/superglue", "/squad", "/race"}) {
      const std::optional<std::string> file = FindTaskFile(type, data + std::string(folder), TaskSplit::kDev);
      if (!file || (type.name == std::string("rte") && folder == std::string("/superglue"))) continue;
      const std::vector<TaskRow> rows = type.read(type, *file, TaskSplit::kDev);
      std::vector<TaskPrediction> predictions;
      for (const TaskRow& row : rows) {
        std::string answer = row.targets[0];
        if (type.form == TaskForm::kSpan) answer = row.answers.empty() ? "" : row.answers[0].text;
        if (type.form == TaskForm::kClassification) answer = type.labels[static_cast<size_t>(row.label)];
        if (type.form == TaskForm::kMultipleChoice) answer = row.choices[static_cast<size_t>(row.label)].answer;
        if (type.form == TaskForm::kRegression) answer = std::to_string(row.number);
        predictions.push_back({row.id, answer, {}});
      }
      for (const TaskFile& one : type.write(type, rows, predictions, TaskSplit::kDev)) {
        std::filesystem::create_directories(std::filesystem::path(dir / one.name).parent_path());
        PutFile(dir / one.name, one.contents);
      }
      const double full = std::string(folder) == "/squad" ? 100 : 1;
      EXPECT_NEAR(MainScore(type, type.score(type, rows, predictions)), 1, 1e-12) << type.name;
      const std::string scores = score(type, *file, {dir.path()}).output;
      EXPECT_PRED2(Contains, scores, full == 1 ? "1.0" : "100.0");
      // And so do the words that a text-to-text model is taught, except STS-B's rounded numbers.
      if (type.form == TaskForm::kRegression) continue;
      Json words = Json::MakeObject();
      for (const TaskRow& row : rows) words.Set(row.id, row.targets[0]);
      PutFile(dir / "words.json", words.Dump());
      EXPECT_EQ(score(type, *file, {dir / "words.json", "--text"}).output, scores) << type.name;
    }
  }
}

}  // namespace score_test
}  // namespace crosstalk
