// grade: compiles and runs the solutions of one student or of many, each in a process of its own with limits on its
// time and memory, and writes a table and JSON with the points. `make grade` starts it.
//
//   grade --compile COMMAND --kernel-flags FLAGS --link COMMAND --parts "FILES LIBRARIES" --work FOLDER
//         --exercises FOLDER --json FILE --table FILE [--seconds N] [--students] FOLDER
//
// FOLDER holds 1_1.cc, 1_2.cc, …; with --students, a folder of these for each student. The limits keep an accident from
// hurting: a loop without end, memory without bound, output without end. A solution runs with the user's rights all the
// same; grade strangers' files as a user who may do nothing else.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "examples/course/checker/checker.h"

namespace {

namespace fs = std::filesystem;
using course::Exercise;
using crosstalk::Json;
using crosstalk::StrCat;

constexpr unsigned kCompileSeconds = 120;
constexpr uint64_t kCompileBytes = uint64_t{3} << 30, kRunBytes = uint64_t{4} << 30;
constexpr uint64_t kOutputBytes = 1 << 20;

struct Settings {
  std::string compile, kernel_flags, link, parts, work, exercises, json, table, folder;
  std::string seconds;  // that a solution may run; empty: what its exercise says
  bool students = false;
};

struct Result {
  int points = 0;
  std::string state;    // "right", "wrong", "to be done", "missing", "does not compile", "out of time", …
  std::string message;  // the first wrong element, the compiler's first error, …
  std::string hint;
  Json notes = Json::MakeArray(), measures = Json::MakeObject();
};

std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string PaddedLeft(int number, size_t width) {
  const std::string text = std::to_string(number);
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Limit(int resource, uint64_t most) {
  const rlimit limit = {most, most};
  setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

struct Ended {
  int status = 0;  // as of waitpid
  bool out_of_time = false;
};

// Runs a command of the shell, a session of its own, whose every process is killed at the end. Its output goes to
// files.
Ended Run(const std::string& command, unsigned seconds, uint64_t bytes, uint64_t file_bytes, const fs::path& output) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process could be started");
  if (child == 0) {
    setsid();
    const std::string errors = output.string() + ".errors";
    const int in = open("/dev/null", O_RDONLY);
    const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int err = open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (in < 0 || out < 0 || err < 0) _exit(127);
    dup2(in, 0), dup2(out, 1), dup2(err, 2);
    setenv("OMP_NUM_THREADS", "2", 1);  // each thread has addresses of its own, which count as memory
    setenv("MALLOC_ARENA_MAX", "2", 1);
    Limit(RLIMIT_CPU, uint64_t{2} * seconds);
    Limit(RLIMIT_AS, bytes);
    Limit(RLIMIT_FSIZE, file_bytes);
    Limit(RLIMIT_CORE, 0);
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  Ended ended;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (waitpid(child, &ended.status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ended.out_of_time = true;
      kill(-child, SIGKILL);
      waitpid(child, &ended.status, 0);
      break;
    }
    usleep(5000);
  }
  kill(-child, SIGKILL);  // what it has left running
  if (WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGXCPU) ended.out_of_time = true;
  return ended;
}

std::string FirstLineWith(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  if (at == std::string::npos) return text.substr(0, text.find('\n'));
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

std::string FileOf(const Exercise& exercise) {
  std::string name = exercise.id + ".cc";
  name[name.find('.')] = '_';
  return name;
}

Result Grade(const Settings& settings, const Exercise& exercise, const fs::path& file) {
  Result result;
  if (!fs::exists(file)) {
    result.state = "missing";
    return result;
  }
  const std::string stub = (fs::path(settings.exercises) / FileOf(exercise)).string();
  if (Contents(file) == Contents(stub)) {
    result.state = "to be done";
    return result;
  }
  const fs::path work = fs::path(settings.work) / FileOf(exercise), program = work.string() + ".program";
  const std::string object = work.string() + ".o";
  fs::remove(program);
  const bool kernel = exercise.id == "6.3" || exercise.id == "6.4";
  const std::string build = settings.compile + " " + (kernel ? settings.kernel_flags : "") + " -c " +
                            Quoted(file.string()) + " -o " + Quoted(object) + " && " + settings.link + " " +
                            Quoted(object) + " " + settings.parts + " -o " + Quoted(program.string());
  const Ended built = Run(build, kCompileSeconds, kCompileBytes, uint64_t{1} << 30, work.string() + ".compiled");
  if (built.out_of_time || !WIFEXITED(built.status) || WEXITSTATUS(built.status) != 0 || !fs::exists(program)) {
    result.state = "does not compile";
    result.message = FirstLineWith(Contents(work.string() + ".compiled.errors"), "error:");
    return result;
  }
  const fs::path output = work.string() + ".output";
  const unsigned seconds =
      settings.seconds.empty() ? exercise.seconds : static_cast<unsigned>(std::stoul(settings.seconds));
  // Sanitizers reserve more addresses than any machine has memory.
  const uint64_t bytes = settings.link.find("-fsanitize") == std::string::npos ? kRunBytes : RLIM_INFINITY;
  const Ended ran =
      Run("exec " + Quoted(fs::absolute(program).string()) + " --json", seconds, bytes, kOutputBytes, output);
  if (ran.out_of_time) {
    result.state = "out of time";
    result.message = "it ran for more than " + std::to_string(seconds) + " seconds";
    return result;
  }
  if (WIFSIGNALED(ran.status)) {
    result.state = "died";
    result.message = std::string("it ended by a signal: ") + strsignal(WTERMSIG(ran.status));
    const std::string why = FirstLineWith(Contents(output.string() + ".errors"), "Assertion");
    if (!why.empty()) result.message += ": " + why;
    return result;
  }
  // The checker's line is the last one; a solution may have printed others.
  std::string text = Contents(output);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::string line = text.substr(text.rfind('\n') + 1);
  try {
    const Json verdict = crosstalk::ParseJson(line, output.string());
    if (verdict.At("exercise").AsString() != exercise.id) throw std::runtime_error("another exercise");
    result.points = static_cast<int>(verdict.At("points").AsInt());
    if (result.points != 0 && result.points != exercise.points) throw std::runtime_error("other points");
    result.message = verdict.At("message").AsString();
    result.hint = verdict.At("hint").AsString();
    result.notes = verdict.At("notes");
    result.measures = verdict.At("measures");
    result.state = result.points == exercise.points                               ? "right"
                   : result.message.find("still to be done") != std::string::npos ? "to be done"
                                                                                  : "wrong";
  } catch (const std::exception&) {
    result.points = 0;
    result.state = "says nothing";
    result.message = FirstLineWith(Contents(output.string() + ".errors"), "must end");
    if (result.message.empty()) result.message = "it ended before it was checked: does it call exit?";
  }
  return result;
}

using Results = std::map<std::string, Result>;  // by exercise

Results GradeStudent(const Settings& settings, const fs::path& folder) {
  Results results;
  for (const Exercise& exercise : course::Exercises()) {
    results[exercise.id] = Grade(settings, exercise, folder / FileOf(exercise));
  }
  return results;
}

Json ToJson(const std::string& name, const Results& results, int* total) {
  Json exercises = Json::MakeArray();
  *total = 0;
  for (const Exercise& exercise : course::Exercises()) {
    const Result& result = results.at(exercise.id);
    *total += result.points;
    exercises.Append(Json::MakeObject({{"exercise", exercise.id},
                                       {"title", exercise.title},
                                       {"points", result.points},
                                       {"of", exercise.points},
                                       {"state", result.state},
                                       {"message", result.message},
                                       {"hint", result.hint},
                                       {"notes", result.notes},
                                       {"measures", result.measures}}));
  }
  return Json::MakeObject({{"student", name}, {"points", *total}, {"exercises", exercises}});
}

int TotalPoints() {
  int total = 0;
  for (const Exercise& exercise : course::Exercises()) total += exercise.points;
  return total;
}

// A student's own table: lines for each exercise.
std::string TableOfExercises(const Results& results) {
  std::string table;
  int total = 0;
  for (const Exercise& exercise : course::Exercises()) {
    const Result& result = results.at(exercise.id);
    total += result.points;
    table += exercise.id + StrCat("  ", result.points, " of ", exercise.points, "  ") + Padded(result.state, 16) +
             "  " + exercise.title + "\n";
    std::vector<std::string> lines = {result.message, result.hint};
    for (const Json& note : result.notes.AsArray()) lines.push_back(note.AsString());
    for (const std::string& line : lines) {
      if (!line.empty() && result.state != "to be done") table += "               " + line + "\n";
    }
  }
  return table + StrCat(total, " of ", TotalPoints(), " points\n");
}

// The table of many: a line for each student, the points of each chapter.
std::string TableOfStudents(const std::vector<std::pair<std::string, Results>>& students) {
  size_t width = 7;
  for (const auto& [name, results] : students) width = std::max(width, name.size());
  std::map<char, int> possible;
  for (const Exercise& exercise : course::Exercises()) possible[exercise.id[0]] += exercise.points;
  std::string table = Padded("student", width);
  for (const auto& [chapter, points] : possible) table += StrCat("  ch. ", chapter);
  table += "  total\n";
  const auto add = [&](const std::string& name, const std::map<char, int>& points) {
    int total = 0;
    table += Padded(name, width);
    for (const auto& [chapter, of] : points) {
      table += "  " + PaddedLeft(of, 5);
      total += of;
    }
    table += "  " + PaddedLeft(total, 5) + "\n";
  };
  for (const auto& [name, results] : students) {
    std::map<char, int> points;
    for (const Exercise& exercise : course::Exercises()) points[exercise.id[0]] += results.at(exercise.id).points;
    add(name, points);
  }
  add("of", possible);
  return table;
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

int Main(const Settings& settings) {
  if (!fs::is_directory(settings.folder)) {
    std::fprintf(stderr, "make grade: %s is no folder%s\n", settings.folder.c_str(),
                 settings.students ? ": SUBMISSION names one that holds a folder for each student"
                                   : ": make exercise N=1.1 begins it");
    return 2;
  }
  fs::create_directories(settings.work);
  std::vector<fs::path> folders;
  if (settings.students) {
    for (const auto& entry : fs::directory_iterator(settings.folder)) {
      if (entry.is_directory()) folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    if (folders.empty()) {
      std::fprintf(stderr, "make grade: %s holds no folders, one for each student\n", settings.folder.c_str());
      return 2;
    }
  } else {
    folders.push_back(settings.folder);
  }
  std::vector<std::pair<std::string, Results>> students;
  Json array = Json::MakeArray();
  for (const fs::path& folder : folders) {
    if (settings.students) std::fprintf(stderr, "grading %s\n", folder.filename().c_str());
    students.push_back({folder.filename().string(), GradeStudent(settings, folder)});
    int total = 0;
    array.Append(ToJson(students.back().first, students.back().second, &total));
  }
  WriteFile(settings.json, Json::MakeObject({{"of", TotalPoints()}, {"students", array}}).DumpPretty());
  const std::string table = settings.students ? TableOfStudents(students) : TableOfExercises(students.front().second);
  WriteFile(settings.table, table);
  std::printf("%s%s has the table, %s the details\n", table.c_str(), settings.table.c_str(), settings.json.c_str());
  return 0;
}

Settings ReadArguments(int argc, char** argv) {
  Settings settings;
  const std::map<std::string, std::string Settings::*> options = {
      {"--compile", &Settings::compile}, {"--kernel-flags", &Settings::kernel_flags},
      {"--link", &Settings::link},       {"--parts", &Settings::parts},
      {"--work", &Settings::work},       {"--exercises", &Settings::exercises},
      {"--json", &Settings::json},       {"--table", &Settings::table},
      {"--seconds", &Settings::seconds}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--students") {
      settings.students = true;
    } else if (const auto option = options.find(argument); option != options.end() && i + 1 < argc) {
      settings.*option->second = argv[++i];
    } else if (argument.rfind("--", 0) == 0 || !settings.folder.empty()) {
      throw std::runtime_error("there is nothing to do with " + argument);
    } else {
      settings.folder = argument;
    }
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(ReadArguments(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "grade: %s\n", error.what());
    return 2;
  }
}
