// What the faults are put into: short runs of the command and of a host program, and what must be true after each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/run_command.h"

namespace faults {

// One file call of an undisturbed run, as the preloaded library reports it.
struct FileCall {
  std::string target;  // "file", or "thread-file" of another thread than the main one
  int64_t number = 0;
  std::string kind;  // "open", "write", "rename", …
  std::string path;
  std::string second_path;  // a rename's
  bool failed = false;
};

struct Calls {
  std::vector<FileCall> files;
  int64_t memory = 0;         // allocations of the main thread
  int64_t thread_memory = 0;  // of all others
};

// How a disturbed run ended, and what is wrong with that; empty: nothing.
enum class End { kDone, kReported, kKilled };
struct Verdict {
  End end = End::kDone;
  std::string wrong;
  std::string errors;  // what it wrote to standard error
};

// A worker's own folder and the calls of what it ran last. `fault` is as CROSSTALK_FAULT has it, or empty.
class Bench {
 public:
  // `root`: holds every worker's folder, and the data; file calls count in it.
  // `harm`: a path in the run that each fault takes along, to see that it is noticed; empty: none.
  Bench(std::string root, int worker, std::string harm);
  const std::string& folder() const { return folder_; }
  std::string run() const { return folder_ + "/run"; }
  crosstalk::CommandResult Run(const std::string& program, const std::vector<std::string>& arguments,
                               const std::string& fault);
  // Without a fault; std::runtime_error if it fails.
  crosstalk::CommandResult RunUndisturbed(const std::string& program, const std::vector<std::string>& arguments);
  Calls ReadCalls() const;

 private:
  std::string root_, folder_, harm_;
};

class Subject {
 public:
  explicit Subject(std::string name) : name_(std::move(name)) {}
  virtual ~Subject() = default;
  const std::string& name() const { return name_; }
  // The undisturbed run, whose results are those to be had; its calls.
  virtual Calls Begin(Bench& bench) = 0;
  // Runs with the fault, then without, and compares.
  virtual Verdict Disturb(Bench& bench, const std::string& fault) = 0;

 private:
  std::string name_;
};

// The command's training, from nothing ("train"), or going on from where a kill has left it, for more steps than
// were planned ("resume"); its measurement of a finished run ("eval"); a program that embeds the library ("host").
std::vector<std::unique_ptr<Subject>> AllSubjects(const std::string& root);

}  // namespace faults
