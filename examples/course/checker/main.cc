// The program of one exercise: checks the solution that it is linked with and says what came of it, in words or, with
// --json, in a line for the program that grades many. Exits with 0 if it is solved, 1 if not, 2 if there is nothing to
// check.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "crosstalk/runtime/json.h"
#include "examples/course/checker/checker.h"

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

// What a student at a terminal is told where no verdict comes; a signal handler may only write.
void Say(const char* text) { [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text)); }

void OnSignal(int signal) {
  switch (signal) {
    case SIGALRM:
      Say("  it still runs: does a loop not end? Ctrl-C stops it\n");
      return;
    case SIGFPE:
      Say("  it divides an integer by zero\n");
      break;
    default:
      Say("  it reads or writes memory that is not its own: an index or a pointer is wrong\n");
  }
  raise(signal);  // by SA_RESETHAND the default, which ends the program
}

void TellOfSignals(unsigned seconds) {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  action.sa_flags = SA_RESETHAND | SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(signal, &action, nullptr);
  alarm(seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  if (course::AllRegistered().size() != 1) {
    std::fprintf(stderr, "the file must end with one line EXERCISE(…), as its stub does\n");
    return 2;
  }
  const course::Registered& solution = course::AllRegistered().front();
  const std::filesystem::path file = solution.file;
  if (std::string id = file.stem(); id.replace(id.find('_'), 1, ".") != solution.id) {
    std::fprintf(stderr, "%s must end with EXERCISE(%s, …), not with that of exercise %s\n", file.filename().c_str(),
                 file.stem().c_str(), solution.id.c_str());
    return 2;
  }
  const course::Exercise* exercise = course::FindExercise(solution.id);
  if (exercise == nullptr) {
    std::fprintf(stderr, "there is no exercise %s\n", solution.id.c_str());
    return 2;
  }
  if (!json) TellOfSignals(exercise->seconds / 4);
  const course::Outcome outcome = course::RunCheck(*exercise, solution.function);
  if (json) {
    std::printf("%s\n", Object(*exercise, outcome).Dump().c_str());
  } else {
    Print(*exercise, outcome);
  }
  return outcome.state == course::Outcome::State::kSolved ? 0 : 1;
}
