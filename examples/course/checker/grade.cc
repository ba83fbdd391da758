#include "examples/course/checker/grade.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/parallel.h"
#include "examples/course/checker/box.h"

namespace course {
namespace {

namespace fs = std::filesystem;
using crosstalk::Json;
using crosstalk::StrCat;
using State = Outcome::State;

struct Student {
  std::string name;
  Submission submission;
  std::map<std::string, Json> results;  // by exercise, as ToJson gives them, with their fingerprint
};

struct Task {
  Student* student;
  const Exercise* exercise;
  std::string fingerprint;
};

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string PaddedLeft(int64_t number, size_t width) {
  const std::string text = std::to_string(number);
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// Names of folders are the students' own: on one line, and nothing that a terminal would obey.
std::string Printable(std::string name) {
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  }
  return name;
}

bool IsChosen(const GradeSettings& settings, const Exercise& exercise) {
  return settings.chapters.empty() ||
         ("," + settings.chapters + ",").find(StrCat(",", exercise.id[0], ",")) != std::string::npos;
}

std::vector<Student> StudentsOf(const GradeSettings& settings) {
  if (!fs::is_directory(settings.folder)) {
    throw std::runtime_error(StrCat(settings.folder, " is no folder",
                                    settings.students ? ": SUBMISSION names one that holds a folder for each student"
                                                      : ": make exercise N=1.1 begins it"));
  }
  std::vector<Student> students;
  const Submission common = {.folder = settings.folder, .hidden = settings.hidden, .seconds = settings.seconds};
  if (!settings.students) {
    const std::string name = fs::canonical(settings.folder).filename().string();
    students.push_back({name, common, {}});
    return students;
  }
  for (const auto& entry : fs::directory_iterator(settings.folder)) {
    if (!entry.is_directory()) continue;
    students.push_back({entry.path().filename().string(), common, {}});
    students.back().submission.folder = entry.path().string();
    students.back().submission.hidden.push_back(fs::canonical(settings.folder).string());
  }
  std::sort(students.begin(), students.end(), [](const Student& a, const Student& b) { return a.name < b.name; });
  if (students.empty()) {
    throw std::runtime_error(settings.folder + " holds no folders, one for each student");
  }
  return students;
}

// By student and exercise, as an earlier run wrote them.
std::map<std::string, std::map<std::string, Json>> ReadResults(const std::string& path) {
  std::map<std::string, std::map<std::string, Json>> results;
  if (!crosstalk::Exists(path)) return results;
  try {
    const Json file = crosstalk::ReadJsonFile(path);
    for (const Json& student : file.At("students").AsArray()) {
      for (const Json& result : student.At("exercises").AsArray()) {
        results[student.At("student").AsString()][result.At("exercise").AsString()] = result;
      }
    }
  } catch (const crosstalk::Error& error) {
    throw std::runtime_error(StrCat(path, ": ", error.what(), "; remove the file to grade all again"));
  }
  return results;
}

int64_t PointsOf(const Json& result) { return result.At("points").AsInt(); }

void WriteResults(const GradeSettings& settings, const std::vector<Student>& students) {
  Json array = Json::MakeArray();
  int64_t possible = 0;
  for (const Exercise& exercise : Exercises()) possible += exercise.points;
  for (const Student& student : students) {
    Json results = Json::MakeArray();
    int64_t total = 0;
    for (const auto& [id, result] : student.results) results.Append(result), total += PointsOf(result);
    array.Append(Json::MakeObject({{"student", student.name}, {"points", total}, {"exercises", results}}));
  }
  crosstalk::WriteFileAtomically(settings.json, Json::MakeObject({{"of", possible}, {"students", array}}).DumpPretty());
}

// A student's own table: lines for each exercise.
std::string TableOfExercises(const GradeSettings& settings, const Student& student) {
  std::string table;
  int64_t total = 0, possible = 0;
  for (const Exercise& exercise : Exercises()) {
    if (!IsChosen(settings, exercise)) continue;
    const Json& result = student.results.at(exercise.id);
    const std::string& state = result.At("state").AsString();
    total += PointsOf(result);
    possible += exercise.points;
    table += StrCat(exercise.id, "  ", PointsOf(result), " of ", exercise.points, "  ", Padded(state, 16), "  ",
                    exercise.title, "\n");
    std::vector<std::string> lines = {result.At("message").AsString(), result.At("hint").AsString()};
    for (const Json& note : result.At("notes").AsArray()) lines.push_back(note.AsString());
    for (const std::string& line : lines) {
      if (!line.empty() && state != Name(State::kUnsolved)) table += "               " + Printable(line) + "\n";
    }
  }
  return table + StrCat(total, " of ", possible, " points\n");
}

// The table of many: a line for each student, the points of each chapter.
std::string TableOfStudents(const GradeSettings& settings, const std::vector<Student>& students) {
  size_t width = 7;
  for (const Student& student : students) width = std::max(width, student.name.size());
  std::map<char, int64_t> possible;
  for (const Exercise& exercise : Exercises()) {
    if (IsChosen(settings, exercise)) possible[exercise.id[0]] += exercise.points;
  }
  std::string table = Padded("student", width);
  for (const auto& [chapter, points] : possible) table += StrCat("  ch. ", chapter);
  table += "  total\n";
  const auto add = [&](const std::string& name, const std::map<char, int64_t>& points) {
    int64_t total = 0;
    table += Padded(name, width);
    for (const auto& [chapter, of] : points) {
      table += "  " + PaddedLeft(of, 5);
      total += of;
    }
    table += "  " + PaddedLeft(total, 5) + "\n";
  };
  for (const Student& student : students) {
    std::map<char, int64_t> points;
    for (const Exercise& exercise : Exercises()) {
      if (IsChosen(settings, exercise)) points[exercise.id[0]] += PointsOf(student.results.at(exercise.id));
    }
    add(Printable(student.name), points);
  }
  add("of", possible);
  return table;
}

// A process that checks one solution and writes its result, as JSON, to a pipe.
struct Worker {
  Task task;
  pid_t process = 0;
  int result = -1;  // the pipe to read
  std::string text;
};

Worker StartWorker(const GradeSettings& settings, const Task& task) {
  Worker worker = {task};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe could be made");
  std::fflush(nullptr);
  worker.process = fork();
  if (worker.process < 0) throw std::runtime_error("no process could be started");
  if (worker.process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // and its box with it
    std::string text;
    try {
      const Outcome outcome =
          CheckFile(*task.exercise, task.student->submission, settings.compiler, StubOf(settings, *task.exercise));
      text = ToJson(*task.exercise, outcome).Dump();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s %s: %s\n", Printable(task.student->name).c_str(), task.exercise->id.c_str(),
                   error.what());
    }
    WriteWhole(ends[1], text);
    std::fflush(nullptr);
    _exit(0);
  }
  close(ends[1]);
  worker.result = ends[0];
  return worker;
}

// The result of a worker that has ended; one without a fingerprint, which the next run asks for again, where it has not
// said any.
Json ResultOf(const Worker& worker) {
  try {
    Json result = crosstalk::ParseJson(worker.text, "the checker's result");
    result.Set("fingerprint", worker.task.fingerprint);
    return result;
  } catch (const crosstalk::Error&) {
    Outcome outcome;
    outcome.state = State::kDied;
    outcome.message = "its checker ended with it";
    return ToJson(*worker.task.exercise, outcome);
  }
}

void RunTasks(const GradeSettings& settings, std::deque<Task> tasks, const std::vector<Student>& students) {
  const auto most =
      static_cast<size_t>(settings.jobs > 0 ? settings.jobs : std::max(1, crosstalk::AvailableProcessors() - 1));
  // What is measured comes last, and alone.
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.exercise->measured < b.exercise->measured; });
  std::vector<Worker> workers;
  const Student* named = nullptr;
  while (!tasks.empty() || !workers.empty()) {
    while (!tasks.empty() && workers.size() < (tasks.front().exercise->measured ? 1 : most)) {
      if (tasks.front().student != named && settings.students) {
        named = tasks.front().student;
        std::fprintf(stderr, "grading %s\n", Printable(named->name).c_str());
      }
      workers.push_back(StartWorker(settings, tasks.front()));
      tasks.pop_front();
    }
    std::vector<pollfd> polled;
    for (const Worker& worker : workers) polled.push_back({worker.result, POLLIN, 0});
    poll(polled.data(), polled.size(), -1);
    for (size_t i = workers.size(); i-- > 0;) {
      if (polled[i].revents == 0) continue;
      Worker& worker = workers[i];
      char bytes[1 << 14];
      const ssize_t count = read(worker.result, bytes, sizeof(bytes));
      if (count > 0) {
        worker.text.append(bytes, static_cast<size_t>(count));
        continue;
      }
      close(worker.result);
      waitpid(worker.process, nullptr, 0);
      worker.task.student->results[worker.task.exercise->id] = ResultOf(worker);
      workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(i));
      WriteResults(settings, students);
    }
  }
}

}  // namespace

std::string StubOf(const GradeSettings& settings, const Exercise& exercise) {
  return crosstalk::ReadFile((fs::path(settings.stubs) / FileOf(exercise)).string());
}

void GradeAll(const GradeSettings& settings) {
  std::vector<Student> students = StudentsOf(settings);
  auto known = ReadResults(settings.json);
  for (const std::string& lack : LacksOfSystem()) std::fprintf(stderr, "make grade: %s\n", lack.c_str());
  std::deque<Task> tasks;
  for (Student& student : students) {
    // A link may lead to a neighbour's folder.
    const bool is_link = settings.students && fs::is_symlink(student.submission.folder);
    for (const Exercise& exercise : Exercises()) {
      const fs::path file = fs::path(student.submission.folder) / FileOf(exercise);
      if (is_link || !fs::exists(fs::symlink_status(file))) {
        Outcome missing;
        missing.state = State::kMissing;
        if (is_link) missing.message = "the student's folder is a link";
        student.results[exercise.id] = ToJson(exercise, missing);
        continue;
      }
      const std::string fingerprint = Fingerprint(exercise, student.submission, settings.compiler);
      const Json& result = known[student.name][exercise.id];
      const Json* of = result.is_null() ? nullptr : result.Find("fingerprint");
      if (of != nullptr && *of == Json(fingerprint)) {
        student.results[exercise.id] = result;
      } else if (IsChosen(settings, exercise)) {
        tasks.push_back({&student, &exercise, fingerprint});
      }
    }
  }
  RunTasks(settings, tasks, students);
  WriteResults(settings, students);
  const std::string table =
      settings.students ? TableOfStudents(settings, students) : TableOfExercises(settings, students.front());
  crosstalk::WriteFileAtomically(settings.table, table);
  std::printf("%s%s has the table, %s the details\n", table.c_str(), settings.table.c_str(), settings.json.c_str());
}

}  // namespace course
