// grade: checks the solution of one exercise and says what came of it, or grades those of one student or of many.
// `make exercise` and `make grade` start it.
//
//   grade --compile COMMAND --kernel-flags FLAGS --work FOLDER --stubs FOLDER [--hide FOLDER] [--seconds N]
//         [--without PART] (--exercise N | --json FILE --table FILE [--chapters N,N] [--jobs N] [--students]) FOLDER
//
// FOLDER holds 1_1.cc, 1_2.cc, …; with --students, a folder of these for each student. Exits with 0 if all was done and
// an exercise is solved, 1 if it is not, 2 if there was nothing to do.
#include <malloc.h>
#include <omp.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "crosstalk/runtime/parallel.h"
#include "examples/course/checker/box.h"
#include "examples/course/checker/grade.h"

namespace {

using course::Exercise;
using course::Outcome;

void Print(const Exercise& exercise, const Outcome& outcome) {
  const bool solved = outcome.state == Outcome::State::kSolved;
  std::printf("exercise %s: %s\n", exercise.id.c_str(), exercise.title.c_str());
  if (outcome.state == Outcome::State::kNotCompiled) std::printf("  it does not compile\n");
  if (!outcome.message.empty()) std::printf("  %s\n", outcome.message.c_str());
  if (!outcome.hint.empty()) std::printf("  hint: %s\n", outcome.hint.c_str());
  for (const std::string& note : outcome.notes) std::printf("  %s\n", note.c_str());
  std::printf("%s%d of %d points\n", solved ? "right: " : "", solved ? exercise.points : 0, exercise.points);
}

int CheckOne(const course::GradeSettings& settings, const std::string& id) {
  const Exercise* exercise = course::FindExercise(id);
  if (exercise == nullptr) throw std::runtime_error("there is no exercise " + id);
  course::LacksOfSystem();  // one's own file may have what there is
  const course::Submission submission = {
      .folder = settings.folder, .hidden = settings.hidden, .seconds = settings.seconds, .echo = true};
  const Outcome outcome = CheckFile(*exercise, submission, settings.compiler, StubOf(settings, *exercise));
  Print(*exercise, outcome);
  return outcome.state == Outcome::State::kSolved ? 0 : 1;
}

int Main(int argc, char** argv) {
  course::GradeSettings settings;
  std::string exercise, seconds, jobs, hidden;
  const std::map<std::string, std::string*> options = {{"--compile", &settings.compiler.command},
                                                       {"--kernel-flags", &settings.compiler.kernel_flags},
                                                       {"--work", &settings.compiler.work},
                                                       {"--stubs", &settings.stubs},
                                                       {"--json", &settings.json},
                                                       {"--table", &settings.table},
                                                       {"--chapters", &settings.chapters},
                                                       {"--exercise", &exercise},
                                                       {"--seconds", &seconds},
                                                       {"--jobs", &jobs},
                                                       {"--hide", &hidden}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--students") {
      settings.students = true;
    } else if (argument == "--without" && i + 1 < argc) {
      course::DoWithout(argv[++i]);
    } else if (const auto option = options.find(argument); option != options.end() && i + 1 < argc) {
      *option->second = argv[++i];
    } else if (argument.rfind("--", 0) == 0 || !settings.folder.empty()) {
      throw std::runtime_error("there is nothing to do with " + argument);
    } else {
      settings.folder = argument;
    }
  }
  if (!seconds.empty()) settings.seconds = static_cast<unsigned>(std::stoul(seconds));
  if (!jobs.empty()) settings.jobs = std::stoi(jobs);
  std::filesystem::create_directories(settings.compiler.work);
  settings.hidden.push_back(std::filesystem::canonical(settings.compiler.work).string());
  if (!hidden.empty()) settings.hidden.push_back(std::filesystem::canonical(hidden).string());
  // Each thread has addresses of its own, which count as memory.
  const int threads = std::min(2, crosstalk::AvailableProcessors());
  crosstalk::SetNumThreads(threads);
  omp_set_num_threads(threads);
  mallopt(M_ARENA_MAX, 2);
  if (!exercise.empty()) return CheckOne(settings, exercise);
  GradeAll(settings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make grade: %s\n", error.what());
    return 2;
  }
}
