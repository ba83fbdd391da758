// sweep [--sample N] [--jobs N] [--only SUBJECT:FAULT [--harm PATH]]: puts faults into short runs, one at a time, and
// looks what comes of each. All of them; of thousands of allocations, evenly spaced ones; or N of all.
// Prints each fault that does harm with the way to see it again, then a table and "N faults injected, N wrong". Exit
// codes: 0 none is wrong, 1 some are, 98 this system does not let faults be put in.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tests/faults/injector.h"
#include "tests/faults/subjects.h"
#include "tests/support/temp_dir.h"

namespace faults {
namespace {

using crosstalk::StrCat;

constexpr int64_t kMostAllocations = 2000;  // of each subject's main thread, and as many of its others

// What can go wrong with a call of each kind. ":on" is a disk that stays full or broken.
const std::map<std::string, std::vector<std::string>> kFaultsOfKinds = {
    {"open", {"EIO", "EACCES", "EMFILE", "EINTR", "EIO:on", "EMFILE:on"}},
    {"create", {"EIO", "EACCES", "EMFILE", "EINTR", "ENOSPC", "ENOSPC:on", "EIO:on"}},
    {"read", {"EIO", "EINTR", "short", "EIO:on"}},
    {"write", {"ENOSPC", "EIO", "EINTR", "short", "ENOSPC:on", "EIO:on"}},
    {"sync", {"EIO", "ENOSPC", "EINTR", "ENOSPC:on", "EIO:on"}},
    {"rename", {"EIO", "EACCES", "ENOSPC", "EINTR", "ENOSPC:on", "EIO:on"}},
    {"remove", {"EIO", "EACCES", "EINTR", "EIO:on"}},
    {"mkdir", {"EIO", "EACCES", "ENOSPC", "EINTR", "ENOSPC:on", "EIO:on"}},
    {"list", {"EIO", "EINTR", "EIO:on"}},
    {"look", {"EIO", "EACCES", "EIO:on"}},
    {"lock", {"EIO", "EINTR", "EIO:on"}},
    {"map", {"ENOMEM", "EACCES"}},
    {"truncate", {"EIO", "ENOSPC", "EINTR"}},
    {"close", {"EIO", "ENOSPC", "EINTR"}},
};

struct Task {
  Subject* subject;
  std::string fault;  // "file:17:EIO"
  std::string row;    // of the table: "train EIO"
  std::string call;   // "the 17th file call, write /…"
};

// Every stride-th number of 1 … count, `most` at most.
std::vector<int64_t> EvenlySpaced(int64_t count, int64_t most) {
  std::vector<int64_t> numbers;
  const int64_t taken = std::min(count, most);
  for (int64_t i = 0; i < taken; ++i) numbers.push_back(1 + i * count / taken);
  return numbers;
}

void AddTasks(Subject* subject, const Calls& calls, std::vector<Task>* tasks) {
  const std::string& name = subject->name();
  for (const FileCall& call : calls.files) {
    std::vector<std::string> faults = kFaultsOfKinds.at(call.kind);
    faults.insert(faults.end(), {"kill-before", "kill-after"});
    for (const std::string& fault : faults) {
      tasks->push_back({subject, StrCat(call.target, ":", call.number, ":", fault), StrCat(name, " ", fault),
                        StrCat(call.kind, " ", call.path)});
    }
  }
  for (const auto& [target, count] :
       {std::pair<const char*, int64_t>{"memory", calls.memory}, {"thread-memory", calls.thread_memory}}) {
    for (const char* on : {"", ":on"}) {
      for (int64_t number : EvenlySpaced(count, kMostAllocations)) {
        tasks->push_back({subject, StrCat(target, ":", number, on), StrCat(name, " ", target, on),
                          StrCat("allocation ", number, " of ", count)});
      }
    }
  }
}

struct Row {
  int injected = 0, wrong = 0;
  int ends[3] = {};  // by End
  void Add(const Row& row) {
    injected += row.injected, wrong += row.wrong;
    for (int i = 0; i < 3; ++i) ends[i] += row.ends[i];
  }
};

class Sweep {
 public:
  Sweep(std::vector<Task> tasks, std::string root, std::string harm = "")
      : tasks_(std::move(tasks)), root_(std::move(root)), harm_(std::move(harm)) {}

  // Returns how many are wrong.
  int Run(int jobs) {
    start_ = std::chrono::steady_clock::now();
    std::vector<std::thread> workers;
    for (int i = 0; i < jobs; ++i) workers.emplace_back([this, i] { Work(i + 1); });
    for (std::thread& worker : workers) worker.join();
    return PrintTable();
  }

 private:
  void Work(int worker) {
    Bench bench(root_, worker, harm_);
    for (size_t i; (i = next_.fetch_add(1)) < tasks_.size();) {
      const Task& task = tasks_[i];
      const Verdict verdict = task.subject->Disturb(bench, task.fault);
      const std::lock_guard<std::mutex> lock(mutex_);
      Note(task, verdict);
    }
  }

  void Note(const Task& task, const Verdict& verdict) {
    Row one{.injected = 1, .wrong = !verdict.wrong.empty()};
    one.ends[static_cast<int>(verdict.end)] = 1;
    rows_[task.row].Add(one);
    if (++noted_ % 1000 == 0) std::printf("%zu of %zu, %.0f s\n", noted_, tasks_.size(), Seconds());
    if (!verdict.wrong.empty()) {
      const std::string fault = StrCat(task.subject->name(), ":", task.fault);
      std::printf("WRONG: %s (%s): %s\n  again: make faults FAULT=%s\n", fault.c_str(), task.call.c_str(),
                  verdict.wrong.c_str(), fault.c_str());
    }
    if (tasks_.size() == 1) std::printf("%s", verdict.errors.c_str());
    std::fflush(stdout);
  }

  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  int PrintTable() const {
    Row sum;
    const auto print = [](const std::string& name, const Row& row) {
      std::printf("%-24s %9d %9d %9d %9d %9d\n", name.c_str(), row.injected, row.ends[0], row.ends[1], row.ends[2],
                  row.wrong);
    };
    std::printf("%-24s %9s %9s %9s %9s %9s\n", "", "injected", "went on", "reported", "killed", "wrong");
    for (const auto& [name, row] : rows_) {
      print(name, row);
      sum.Add(row);
    }
    print("all", sum);
    std::printf("%d faults injected, %d wrong, in %.0f s\n", sum.injected, sum.wrong, Seconds());
    return sum.wrong;
  }

  const std::vector<Task> tasks_;
  const std::string root_, harm_;
  std::chrono::steady_clock::time_point start_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  size_t noted_ = 0;
  std::map<std::string, Row> rows_;
};

// A text of a few thousand words, a document a line.
void WriteText(const std::string& path) {
  std::ofstream out(path);
  uint32_t state = 1;
  for (int i = 0; i < 2000; ++i) {
    state = state * 1664525 + 1013904223;
    out << "word" << (state >> 16) % 97 << (i % 12 == 11 ? ".\n\n" : " ");
  }
}

int Main(int argc, char** argv) {
  int64_t sample = 0;
  int jobs = 1;
  std::string only, harm;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--sample") sample = std::atoll(argv[i + 1]);
    if (option == "--jobs") jobs = std::atoi(argv[i + 1]);
    if (option == "--only") only = argv[i + 1];
    if (option == "--harm") harm = argv[i + 1];
  }
  const crosstalk::TempDir root;
  WriteText(root / "text.txt");
  const std::vector<std::unique_ptr<Subject>> subjects = AllSubjects(root.path());
  std::vector<Task> tasks;
  Bench bench(root.path(), 0, "");
  for (const auto& subject : subjects) {
    AddTasks(subject.get(), subject->Begin(bench), &tasks);
    if (only.rfind(subject->name() + ":", 0) != 0) continue;
    const std::string fault = only.substr(subject->name().size() + 1);
    return Sweep({{subject.get(), fault, only, fault}}, root.path(), harm).Run(1) == 0 ? 0 : 1;
  }
  CROSSTALK_CHECK(only.empty(), only, ": no such subject");
  const size_t all = tasks.size();
  if (sample > 0) {
    std::vector<Task> chosen;
    for (int64_t number : EvenlySpaced(std::ssize(tasks), sample)) chosen.push_back(tasks[number - 1]);
    tasks = std::move(chosen);
  }
  std::printf("%zu of %zu faults\n", tasks.size(), all);
  return Sweep(std::move(tasks), root.path()).Run(jobs) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace faults

int main(int argc, char** argv) {
  try {
    return faults::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return std::string(error.what()).find("faults: ") != std::string::npos ? faults::kCannotInject : 1;
  }
}
