#include "tests/faults/subjects.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "tests/faults/injector.h"
#include "tests/support/tiny_run.h"

namespace faults {

namespace fs = std::filesystem;
using crosstalk::CommandResult;
using crosstalk::Json;
using crosstalk::StrCat;

namespace {

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

constexpr unsigned kMostSeconds = 20;  // a run takes a fiftieth of a second

// By the path that started it: /proc may be empty.
std::string FolderOfThisProgram() { return fs::absolute(program_invocation_name).parent_path().string(); }

// The words that the C library has for the error of a fault "file:17:EIO[:on]".
std::string ReasonOf(const std::string& fault) {
  for (const auto& [name, error] : kErrors) {
    if (Contains(fault, StrCat(":", name))) return std::strerror(error);
  }
  return "";
}

// What an ending must look like whatever ran.
Verdict JudgeEnd(const CommandResult& result, const std::string& fault) {
  Verdict verdict;
  verdict.errors = result.errors;
  const bool kill = Contains(fault, ":kill-");
  if (result.signalled) {
    verdict.end = End::kKilled;
    const int signal = result.exit_code - 128;
    if (signal == SIGALRM) {
      verdict.wrong = StrCat("did not end within ", kMostSeconds, " s");
    } else if (!kill || signal != SIGKILL) {
      verdict.wrong = StrCat("ended by signal ", signal, ", ", strsignal(signal));
    }
    return verdict;
  }
  if (kill) {
    verdict.wrong = StrCat("was not killed: exit code ", result.exit_code);
  } else if (result.exit_code == kCannotInject) {
    verdict.wrong = "the fault could not be put in";
  } else if (result.exit_code != 0) {
    verdict.end = End::kReported;
    if (!Contains(result.errors, "error: ")) verdict.wrong = "no message";
    if (Contains(result.errors, "internal error")) verdict.wrong = "an internal error";
    if (Contains(fault, ":EINTR")) verdict.wrong = "an interrupted call was not made again";
    if (Contains(fault, ":short")) verdict.wrong = "a short read or write was not continued";
    if (Contains(fault, "file:") && !Contains(result.errors, ReasonOf(fault))) {
      verdict.wrong = "the message does not say \"" + ReasonOf(fault) + "\"";
    }
  }
  return verdict;
}

// And with an exit code that the fault may have, of a command.
Verdict JudgeCommand(const CommandResult& result, const std::string& fault) {
  Verdict verdict = JudgeEnd(result, fault);
  if (verdict.end != End::kReported || !verdict.wrong.empty()) return verdict;
  const bool of_resources = Contains(fault, "memory:") || Contains(fault, ":ENOSPC") || Contains(fault, ":ENOMEM");
  const bool fits = result.exit_code == 5 || (!of_resources && (result.exit_code == 1 || result.exit_code == 3));
  if (!fits) verdict.wrong = StrCat("exit code ", result.exit_code);
  return verdict;
}

// A line of JSON without the times.
std::string WithoutTimes(const std::string& line) {
  Json kept = Json::MakeObject();
  const Json json = crosstalk::ParseJson(line, "a line");
  for (const auto& [key, value] : json.AsObject()) {
    if (!Contains(key, "second")) kept.Set(key, value);
  }
  return kept.Dump();
}

std::string Metrics(const std::string& run) {
  std::istringstream in(crosstalk::ReadBytes(run + "/metrics.jsonl"));
  std::string text;
  for (std::string line; std::getline(in, line);) text += WithoutTimes(line) + "\n";
  return text;
}

std::set<std::string> Names(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    names.insert(fs::relative(entry.path(), folder).string());
  }
  return names;
}

// The step of a path that ends in "checkpoints/step-00000003"; -1: another path.
int64_t StepOf(const std::string& path) {
  const size_t at = path.find("/checkpoints/step-");
  return at == std::string::npos || path.find('/', at + 13) != std::string::npos ? -1
                                                                                 : std::stoll(path.substr(at + 18));
}

// What an undisturbed training ends with.
struct Trained {
  std::string model;
  std::string metrics;
  std::set<std::string> names;
  std::map<int64_t, double> scores;  // of each step's checkpoint
};

// From nothing to the end of its plan; or from a cut, continued beyond it.
class Training : public Subject {
 public:
  enum class From { kNothing, kCut };
  Training(From from, std::string root)
      : Subject(from == From::kNothing ? "train" : "resume"), from_(from), root_(std::move(root)) {}

  Calls Begin(Bench& bench) override {
    fs::remove_all(bench.run());
    bench.RunUndisturbed("", Arguments(bench, "none"));
    const Calls calls = bench.ReadCalls();
    if (from_ == From::kCut) bench.RunUndisturbed("", Arguments(bench, "auto"));
    trained_ = {crosstalk::ReadBytes(bench.run() + "/model.safetensors"), Metrics(bench.run()), Names(bench.run()), {}};
    std::istringstream lines(trained_.metrics);
    for (std::string line; std::getline(lines, line);) {
      const Json json = crosstalk::ParseJson(line, "metrics.jsonl");
      if (json.At("event").AsString() == "eval")
        trained_.scores[json.At("step").AsInt()] = json.At("ln_ppl").AsDouble();
    }
    if (from_ == From::kNothing) return calls;
    // Cut while the checkpoint of step 4 is put in place: it lies there under its temporary name, its metrics are
    // written, and the best checkpoint is not the newest.
    for (const FileCall& call : calls.files) {
      if (StepOf(call.second_path) != 4 || call.target != "file") continue;
      // The thread that makes batches reads its text meanwhile, so that calls are not always numbered alike.
      for (int attempt = 0; attempt == 0 || (FindNewest(bench.run()) != 3 && attempt < 20); ++attempt) {
        fs::remove_all(bench.run());
        bench.Run("", Arguments(bench, "none"), StrCat("file:", call.number, ":kill-before"));
      }
      fs::copy(bench.run(), root_ + "/cut", fs::copy_options::recursive);
      for (int64_t step : {FindNewest(bench.run()), FindBest(bench.run())}) committed_before_.insert(step);
      if (committed_before_.size() != 2) throw std::runtime_error("the best checkpoint is the newest");
      break;
    }
    bench.RunUndisturbed("", Arguments(bench, "auto"));
    return bench.ReadCalls();
  }

  Verdict Disturb(Bench& bench, const std::string& fault) override {
    fs::remove_all(bench.run());
    if (from_ == From::kCut) fs::copy(root_ + "/cut", bench.run(), fs::copy_options::recursive);
    const CommandResult result = bench.Run("", Arguments(bench, from_ == From::kCut ? "auto" : "none"), fault);
    Verdict verdict = JudgeCommand(result, fault);
    if (verdict.wrong.empty() && verdict.end == End::kDone) verdict.wrong = CompareBits(bench.run());
    if (verdict.wrong.empty()) verdict.wrong = FindLoss(bench);
    if (!verdict.wrong.empty()) return verdict;
    const bool begun = fs::exists(bench.run() + "/run.json");
    const CommandResult rest = bench.Run("", Arguments(bench, begun ? "auto" : "none"), "");
    if (rest.exit_code != 0) verdict.wrong = StrCat("exit code ", rest.exit_code, ": ", rest.errors);
    if (verdict.wrong.empty()) verdict.wrong = CompareBits(bench.run());
    if (verdict.wrong.empty()) verdict.wrong = CompareNames(bench.run());
    if (!verdict.wrong.empty()) verdict.wrong = "resumed, " + verdict.wrong;
    return verdict;
  }

 private:
  // With this learning rate and seed the loss is lowest after step 2, so that the best checkpoint is not the newest.
  std::vector<std::string> Arguments(const Bench& bench, const std::string& resume) const {
    std::istringstream words(
        "train --model t5 --tokenizer bytes --d-model 8 --heads 1 --d-ff 8 --layers 1 --input-length 8 --batch 2 "
        "--eval-batches 1 --eval-every 1 --checkpoint-every 1 --keep 1 --threads 1 --learning-rate 1 --seed 3");
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    const char* const steps = from_ == From::kCut && resume == "auto" ? "6" : "5";
    arguments.insert(arguments.end(), {"--steps", steps, "--data", root_ + "/text.txt"});
    arguments.insert(arguments.end(), {"--out", bench.run(), "--resume", resume});
    return arguments;
  }

  static crosstalk::CheckpointStore Store(const std::string& run) {
    return crosstalk::CheckpointStore(run + "/checkpoints");
  }
  static int64_t FindNewest(const std::string& run) {
    const auto found = Store(run).FindNewestGood().checkpoint;
    return found ? found->step : -1;
  }
  static int64_t FindBest(const std::string& run) {
    const auto found = Store(run).FindBest().checkpoint;
    return found ? found->step : -1;
  }

  std::string CompareBits(const std::string& run) const {
    if (crosstalk::ReadBytes(run + "/model.safetensors") != trained_.model) return "model.safetensors has other bits";
    if (Metrics(run) != trained_.metrics) return "metrics.jsonl has other lines";
    if (FindNewest(run) != trained_.scores.rbegin()->first) return "the last checkpoint is not good";
    return "";
  }

  // Only what the end of a run leaves, unless it is an older checkpoint.
  std::string CompareNames(const std::string& run) const {
    const std::set<std::string> names = Names(run);
    for (const std::string& name : trained_.names) {
      if (names.count(name) == 0) return name + " is not there";
    }
    for (const std::string& name : names) {
      if (trained_.names.count(name) == 0 && name.rfind("checkpoints/step-", 0) != 0) return name + " is left over";
    }
    return "";
  }

  // Every checkpoint that was ever in place, or one that replaces it, must be good.
  std::string FindLoss(const Bench& bench) const {
    std::set<int64_t> committed = committed_before_;
    for (const FileCall& call : bench.ReadCalls().files) {
      if (call.kind == "rename" && !call.failed && StepOf(call.second_path) >= 0) {
        committed.insert(StepOf(call.second_path));
      }
    }
    if (committed.empty()) return "";
    double best = std::numeric_limits<double>::infinity();
    for (int64_t step : committed) best = std::min(best, trained_.scores.at(step));
    if (FindNewest(bench.run()) < *committed.rbegin()) return StrCat("lost: checkpoint ", *committed.rbegin());
    const int64_t best_there = FindBest(bench.run());
    if (best_there < 0 || trained_.scores.at(best_there) > best) return "lost: the best checkpoint";
    return "";
  }

  From from_;
  std::string root_;
  Trained trained_;
  std::set<int64_t> committed_before_;
};

class Measuring : public Subject {
 public:
  explicit Measuring(std::string root) : Subject("eval"), root_(std::move(root)) {}

  Calls Begin(Bench& bench) override {
    output_ = WithoutTimes(bench.RunUndisturbed("", Arguments()).output);
    snapshot_ = crosstalk::Snapshot(root_ + "/cut");
    return bench.ReadCalls();
  }

  Verdict Disturb(Bench& bench, const std::string& fault) override {
    const CommandResult result = bench.Run("", Arguments(), fault);
    Verdict verdict = JudgeCommand(result, fault);
    // It may pass over a checkpoint that it could not read, if it says so.
    const bool said =
        Contains(fault, "file:") && Contains(result.errors, "skipped") && Contains(result.errors, ReasonOf(fault));
    if (verdict.end == End::kDone && verdict.wrong.empty() && !said && WithoutTimes(result.output) != output_) {
      verdict.wrong = "another result: " + result.output;
    }
    if (crosstalk::Snapshot(root_ + "/cut") != snapshot_) verdict.wrong = "has changed the run";
    return verdict;
  }

 private:
  std::vector<std::string> Arguments() const { return {"eval", "--run", root_ + "/cut", "--json", "--threads", "1"}; }

  std::string root_, output_, snapshot_;
};

class Hosting : public Subject {
 public:
  Hosting() : Subject("host") {}

  Calls Begin(Bench& bench) override {
    output_ = bench.RunUndisturbed(Program(), {}).output;
    return bench.ReadCalls();
  }

  // One failure is survived by the next attempt, and nothing else helps where all fail.
  Verdict Disturb(Bench& bench, const std::string& fault) override {
    const CommandResult result = bench.Run(Program(), {}, fault);
    Verdict verdict = JudgeEnd(result, fault);
    if (!verdict.wrong.empty()) return verdict;
    if (result.exit_code == 0) {
      if (result.output != output_) verdict.wrong = "another result: " + result.output;
      if (!result.errors.empty()) verdict.end = End::kReported;
    } else if (result.exit_code != 42 || !Contains(fault, ":on")) {
      verdict.wrong = StrCat("exit code ", result.exit_code);
    }
    return verdict;
  }

 private:
  static std::string Program() { return FolderOfThisProgram() + "/host"; }
  std::string output_;
};

}  // namespace

Bench::Bench(std::string root, int worker, std::string harm)
    : root_(std::move(root)), folder_(StrCat(root_, "/", worker)), harm_(std::move(harm)) {
  fs::create_directory(folder_);
  // A name with a blank in its path would be two libraries to LD_PRELOAD.
  fs::create_symlink(FolderOfThisProgram() + "/libfaults.so", folder_ + "/libfaults.so");
}

CommandResult Bench::Run(const std::string& program, const std::vector<std::string>& arguments,
                         const std::string& fault) {
  crosstalk::CommandOptions options;
  options.program = program;
  options.most_seconds = kMostSeconds;
  options.environment = {"LD_PRELOAD=" + folder_ + "/libfaults.so", "CROSSTALK_FAULT_ROOT=" + root_,
                         "CROSSTALK_FAULT_REPORT=" + folder_ + "/report", "OMP_WAIT_POLICY=passive"};
  if (!fault.empty()) options.environment.push_back("CROSSTALK_FAULT=" + fault);
  const CommandResult result = crosstalk::RunCommand(arguments, options);
  if (!fault.empty() && !harm_.empty()) fs::remove_all(run() + "/" + harm_);
  return result;
}

CommandResult Bench::RunUndisturbed(const std::string& program, const std::vector<std::string>& arguments) {
  CommandResult result = Run(program, arguments, "");
  if (result.exit_code != 0) throw std::runtime_error("an undisturbed run failed: " + result.errors);
  return result;
}

Calls Bench::ReadCalls() const {
  Calls calls;
  std::istringstream in(crosstalk::ReadBytes(folder_ + "/report"));
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first, word;
    words >> first;
    if (first == "memory") {
      words >> calls.memory;
    } else if (first == "thread-memory") {
      words >> calls.thread_memory;
    } else {
      FileCall call;
      call.target = first;
      words >> call.number >> call.kind >> call.path;
      while (words >> word) {
        if (word == ">") words >> call.second_path;
        if (word == "failed") call.failed = true;
      }
      calls.files.push_back(call);
    }
  }
  return calls;
}

std::vector<std::unique_ptr<Subject>> AllSubjects(const std::string& root) {
  std::vector<std::unique_ptr<Subject>> subjects;
  subjects.push_back(std::make_unique<Training>(Training::From::kNothing, root));
  subjects.push_back(std::make_unique<Training>(Training::From::kCut, root));
  subjects.push_back(std::make_unique<Measuring>(root));
  subjects.push_back(std::make_unique<Hosting>());
  return subjects;
}

}  // namespace faults
