// The program of one exercise: checks the solution that it is linked with and says what came of it, in words or, with
// --json, in a line for the program that grades many. Exits with 0 if it is solved, 1 if not, 2 if there is nothing to
// check.
#include <cstdio>
#include <cstring>

#include "crosstalk/runtime/json.h"
#include "tests/course/checker/checker.h"

namespace {

using crosstalk::Json;

Json Object(const course::Exercise& exercise, const course::Outcome& outcome) {
  const bool solved = outcome.state == course::Outcome::State::kSolved;
  Json notes = Json::MakeArray();
  for (const std::string& note : outcome.notes) notes.Append(note);
  Json measures = Json::MakeObject();
  for (const auto& [name, value] : outcome.measures) measures.Set(name, value);
  return Json::MakeObject({{"exercise", exercise.id},
                           {"points", solved ? exercise.points : 0},
                           {"of", exercise.points},
                           {"message", outcome.message},
                           {"hint", outcome.hint},
                           {"notes", notes},
                           {"measures", measures}});
}

void Print(const course::Exercise& exercise, const course::Outcome& outcome) {
  const bool solved = outcome.state == course::Outcome::State::kSolved;
  std::printf("exercise %s: %s\n", exercise.id.c_str(), exercise.title.c_str());
  if (!outcome.message.empty()) std::printf("  %s\n", outcome.message.c_str());
  if (!outcome.hint.empty()) std::printf("  hint: %s\n", outcome.hint.c_str());
  for (const std::string& note : outcome.notes) std::printf("  %s\n", note.c_str());
  std::printf("%s%d of %d points\n", solved ? "right: " : "", solved ? exercise.points : 0, exercise.points);
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  if (course::AllRegistered().size() != 1) {
    std::fprintf(stderr, "the file must end with one line EXERCISE(…), as its stub does\n");
    return 2;
  }
  const course::Registered& solution = course::AllRegistered().front();
  const course::Exercise* exercise = course::FindExercise(solution.id);
  if (exercise == nullptr) {
    std::fprintf(stderr, "there is no exercise %s\n", solution.id.c_str());
    return 2;
  }
  const course::Outcome outcome = course::RunCheck(*exercise, solution.function);
  if (json) {
    std::printf("%s\n", Object(*exercise, outcome).Dump().c_str());
  } else {
    Print(*exercise, outcome);
  }
  return outcome.state == course::Outcome::State::kSolved ? 0 : 1;
}
