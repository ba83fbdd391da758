// `make mutants`: puts one fault at a time into a copy of the sources, builds the tests that stand nearest to it, runs
// them, then those further off, and stops at the first that fails. A fault that no test notices is a test that is
// missing.
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <future>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tests/mutants/mutation.h"

namespace crosstalk {

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kSources = {"runtime",       "kernels",     "autograd", "nn",           "models",
                                           "tools",         "tests",       "examples", "docs",         "Makefile",
                                           "README.md",     "ARTIFACT.md", "LICENSE",  "CITATION.cff", "packages.txt",
                                           ".clang-format", ".ci"};
constexpr char kEverything[] = "everything";
// A fault may make a loop endless, or an allocation huge: then the system ends the test rather than anything else.
constexpr char kEndFirst[] = "echo 1000 > /proc/self/oom_score_adj";
constexpr double kSlowest = 10;   // times what a test takes without a fault, and
constexpr double kPatience = 30;  // seconds on top

// What stands before a file's name in the list of what an object was compiled from: as a source by itself, as one of a
// unit, as a header.
constexpr std::string_view kSpellings[] = {" ", " ./", "/crosstalk/"};

// The exit status of a shell's command, 128 + the signal where it died of one. Ends this process where the user
// interrupted the command.
int RunShell(const std::string& command) {
  const int status = std::system(command.c_str());
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM) std::_Exit(130);
    return 128 + WTERMSIG(status);
  }
  const int code = WEXITSTATUS(status);
  if (code == 130) std::_Exit(130);
  return code;
}

void MustShell(const std::string& command) {
  if (RunShell(command) != 0) Fail(ErrorKind::kFailure, "this failed: ", command);
}

// The files of a source, which is a folder or a file.
std::set<std::string> FilesOf(const std::string& source) {
  std::set<std::string> files;
  if (!fs::exists(source)) return files;
  if (!fs::is_directory(source)) return {source};
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (entry.is_regular_file()) files.insert(entry.path().string());
  }
  return files;
}

// Makes the copies in `folder` those of the working directory. What is the same stays as it is, so that a second call
// builds little.
void CopySources(const std::string& folder) {
  for (const std::string& source : kSources) {
    const std::set<std::string> files = FilesOf(source);
    for (const std::string& copy : FilesOf(folder + "/" + source)) {
      if (!files.contains(copy.substr(folder.size() + 1))) fs::remove(copy);
    }
    for (const std::string& file : files) {
      const fs::path copy = folder + "/" + file;
      if (fs::exists(copy) && ReadFile(copy) == ReadFile(file)) continue;
      fs::create_directories(copy.parent_path());
      fs::copy_file(file, copy, fs::copy_options::overwrite_existing);
    }
  }
}

// The first test that a log of GoogleTest names as failed.
std::string FailedTest(const std::string& log) {
  constexpr std::string_view kMark = "[  FAILED  ] ";
  const size_t begin = log.find(kMark);
  if (begin == std::string::npos) return "";
  const size_t name = begin + kMark.size();
  return log.substr(name, log.find_first_of(" \n,", name) - name);
}

std::string Stem(const std::string& path) {
  std::string stem = fs::path(path).stem().string();
  for (const std::string_view ending : {"_test", "-inl"}) {
    if (stem.ends_with(ending)) stem.resize(stem.size() - ending.size());
  }
  return stem;
}

struct Verdict {
  enum class Kind {
    kNoticed,     // a test failed, died or did not end
    kUnnoticed,   // every test passed
    kInvalid,     // it does not compile
    kEquivalent,  // the compiler makes the same code of it
  };
  Kind kind;
  std::string by;  // the test, or how many passed
};
const char* Name(Verdict::Kind kind) {
  constexpr const char* kNames[] = {"noticed", "NOT NOTICED", "not compiled", "same code"};
  return kNames[static_cast<int>(kind)];
}

// A copy of the sources with everything built, into which one fault is put at a time.
class MutantTree {
 public:
  // Copies the sources of the working directory to `folder`, or brings the copy there up to date; builds everything,
  // `jobs` files at a time; and runs every test. Error where one fails without a fault.
  static MutantTree Create(const std::string& folder, int jobs) {
    fs::create_directories(folder);
    CopySources(folder);
    MutantTree tree(folder, {});
    if (!tree.Make(kEverything, jobs)) Fail(ErrorKind::kFailure, folder, ": does not build without a fault");

    std::vector<std::string> targets;
    for (const auto& entry : fs::recursive_directory_iterator(folder + "/build/tests")) {
      const std::string path = entry.path().string();
      if (entry.is_symlink()) targets.push_back(path.substr(folder.size() + 1));
    }
    std::sort(targets.begin(), targets.end());
    std::string failures;
    for (const std::string& target : targets) {
      const auto start = std::chrono::steady_clock::now();
      const std::string failure = tree.RunTest({target, 0}, 600);
      if (!failure.empty()) failures += StrCat("\n  ", target, ": ", failure);
      tree.programs_.push_back(
          {target, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
    }
    if (!failures.empty()) Fail(ErrorKind::kFailure, "without a fault there fail:", failures);
    fs::remove_all(folder + "/pristine");
    fs::copy(folder + "/build/objects", folder + "/pristine", fs::copy_options::recursive);
    return tree;
  }

  // The same, built, at another place.
  MutantTree Copy(const std::string& folder) const {
    fs::remove_all(folder);
    MustShell(StrCat("cp -a ", ShellQuoted(folder_), " ", ShellQuoted(folder)));
    return MutantTree(folder, programs_);
  }

  // Puts the fault in, looks for a test that notices it, and takes it out again.
  Verdict Try(const Mutation& mutation) {
    const std::string path = folder_ + "/" + mutation.file;
    const std::string source = ReadFile(path);
    const fs::file_time_type written = fs::last_write_time(path);
    WriteFileAtomically(path, Apply(mutation, source));
    Verdict verdict = Judge(mutation);
    Restore(mutation.file);
    WriteFileAtomically(path, source);
    fs::last_write_time(path, written);
    fs::remove_all(folder_ + "-tmp");  // what tests that died have left
    return verdict;
  }

 private:
  struct TestProgram {
    std::string target;    // "build/tests/kernels/softmax_test"
    double seconds = 0.0;  // that it takes without a fault
  };

  MutantTree(std::string folder, std::vector<TestProgram> programs)
      : folder_(std::move(folder)), programs_(std::move(programs)) {}

  bool Make(const std::string& targets, int jobs) const {
    return RunShell(StrCat("cd ", ShellQuoted(folder_), " && CROSSTALK_SETUP_DONE=1 make -j", jobs, " ", targets,
                           " > make.log 2>&1")) == 0;
  }

  // "" if it passes; else how it failed.
  std::string RunTest(const TestProgram& program, double limit_seconds) const {
    const int code = RunShell(
        StrCat("cd ", ShellQuoted(folder_), " && mkdir -p $PWD-tmp && ", kEndFirst,
               " && ulimit -c 0 && CROSSTALK_BINARY=$PWD/build/crosstalk ",
               "CROSSTALK_SOURCE=$PWD CROSSTALK_BUILD=$PWD/build OMP_WAIT_POLICY=passive TMPDIR=$PWD-tmp timeout -k 5 ",
               limit_seconds, " ", program.target, " --gtest_color=no > test.log 2>&1"));
    if (code == 0) return "";
    if (code == 124 || code == 137) return "does not end";
    const std::string failed = FailedTest(ReadFile(folder_ + "/test.log"));
    return !failed.empty() ? failed : StrCat("ends with ", code);
  }

  // The objects of the library and the command that the file is compiled into, below build/objects/.
  std::vector<std::string> ObjectsOf(const std::string& file) const {
    std::vector<std::string> objects;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/pristine")) {
      const std::string path = entry.path().string();
      if (!path.ends_with(".d")) continue;
      const std::string relative = path.substr((folder_ + "/pristine/").size());
      if (relative.starts_with("tests/") || relative.starts_with("examples/")) continue;
      const std::string text = ReadFile(path);
      const bool reads = std::any_of(std::begin(kSpellings), std::end(kSpellings), [&](std::string_view before) {
        return text.find(StrCat(before, file)) != std::string::npos;
      });
      if (!reads) continue;
      objects.push_back(relative.substr(0, relative.size() - 2) + ".o");
    }
    return objects;
  }

  // The programs, nearest to the file first, in three groups: of the same name or folder, of the same layer, the rest.
  std::vector<std::vector<TestProgram>> Groups(const std::string& file) const {
    const std::string parent = "build/tests/" + fs::path(file).parent_path().string() + "/";
    const std::string layer = "build/tests/" + file.substr(0, file.find('/')) + "/";
    std::vector<std::vector<TestProgram>> groups(3);
    const auto is_namesake = [&](const TestProgram& program) { return Stem(program.target) == Stem(file); };
    for (const TestProgram& program : programs_) {
      const bool near = is_namesake(program) || (parent != layer && program.target.starts_with(parent));
      groups[near ? 0 : program.target.starts_with(layer) ? 1 : 2].push_back(program);
    }
    for (auto& group : groups) {
      std::stable_sort(group.begin(), group.end(), [&](const TestProgram& a, const TestProgram& b) {
        if (is_namesake(a) != is_namesake(b)) return is_namesake(a);
        return a.seconds < b.seconds;
      });
    }
    return groups;
  }

  // True if the compiler made of the file what it makes without the fault.
  bool SameCode(const std::string& file) const {
    const std::vector<std::string> objects = ObjectsOf(file);
    return std::all_of(objects.begin(), objects.end(), [this](const std::string& object) {
      return ReadFile(folder_ + "/build/objects/" + object) == ReadFile(folder_ + "/pristine/" + object);
    });
  }

  Verdict Judge(const Mutation& mutation) const {
    // A source's one object tells soon. A header's many are compared only where the tests have built them all.
    const bool is_source = mutation.file.ends_with(".cc");
    if (is_source) {
      if (!Make("build/objects/" + ObjectsOf(mutation.file).at(0), 1)) return {Verdict::Kind::kInvalid, "the compiler"};
      if (SameCode(mutation.file)) return {Verdict::Kind::kEquivalent, "the compiler"};
    }
    int passed = 0;
    std::vector<std::vector<TestProgram>> groups = Groups(mutation.file);
    for (const std::vector<TestProgram>& group : groups) {
      std::string targets;
      for (const TestProgram& program : group) targets += " " + program.target;
      if (&group == &groups.back()) targets = kEverything;
      if (!targets.empty() && !Make(targets, 1)) return {Verdict::Kind::kInvalid, "the compiler"};
      for (const TestProgram& program : group) {
        const std::string failure = RunTest(program, kSlowest * program.seconds + kPatience);
        if (!failure.empty()) return {Verdict::Kind::kNoticed, program.target + ": " + failure};
        ++passed;
      }
    }
    if (!is_source && SameCode(mutation.file)) return {Verdict::Kind::kEquivalent, "the compiler"};
    return {Verdict::Kind::kUnnoticed, StrCat(passed, " test programs passed")};
  }

  // Objects are copied back rather than compiled again. They are new then, so that what was linked with the fault is
  // linked again.
  void Restore(const std::string& file) const {
    const std::string source = folder_ + "/" + file;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/build/objects")) {
      const std::string path = entry.path().string();
      if (!entry.is_regular_file() || fs::last_write_time(path) < fs::last_write_time(source)) continue;
      const std::string pristine = folder_ + "/pristine/" + path.substr((folder_ + "/build/objects/").size());
      fs::copy_file(pristine, path, fs::copy_options::overwrite_existing);
    }
  }

  std::string folder_;
  std::vector<TestProgram> programs_;
};

const std::vector<std::string> kMutatedFolders = {"kernels", "autograd", "nn", "models"};

struct Arguments {
  std::string folder;  // for the copies of the sources
  int count = 0;       // of faults that build
  uint64_t seed = 0;
  int jobs = 1;                   // copies at work at a time
  int from = 1;                   // the first draw
  std::vector<std::string> only;  // parts of paths, of which a file has one; empty: all files
};

std::vector<Mutation> AllMutations(const std::vector<std::string>& only) {
  std::vector<Mutation> mutations;
  std::set<std::string> unused(only.begin(), only.end());
  for (const std::string& folder : kMutatedFolders) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string path = entry.path().string();
      if (!path.ends_with(".cc") && !path.ends_with(".h")) continue;
      bool chosen = only.empty();
      for (const std::string& part : only) {
        if (path.find(part) == std::string::npos) continue;
        chosen = true;
        unused.erase(part);
      }
      if (!chosen) continue;
      for (Mutation& mutation : FindMutations(path, ReadFile(path))) mutations.push_back(std::move(mutation));
    }
  }
  CROSSTALK_CHECK(unused.empty(), "ONLY: ", *unused.begin(),
                  " is in the name of no file of kernels, autograd, nn and models");
  return mutations;
}

// What became of the faults, and the closing lines.
class Tally {
 public:
  void Add(int draw, const Mutation& mutation, const Verdict& verdict) {
    const std::lock_guard<std::mutex> hold(mutex_);
    ++counts_[static_cast<int>(verdict.kind)];
    std::printf("%4d %-12s %s\n     %s\n", draw, Name(verdict.kind), ToString(mutation).c_str(), verdict.by.c_str());
    std::fflush(stdout);
    if (verdict.kind == Verdict::Kind::kUnnoticed) unnoticed_.push_back(StrCat(draw, "  ", ToString(mutation)));
  }

  int Built() const {
    const std::lock_guard<std::mutex> hold(mutex_);
    return Count(Verdict::Kind::kNoticed) + Count(Verdict::Kind::kUnnoticed);
  }

  // The process's exit status: 0 if at least 95 % were noticed.
  int Print(double minutes) const {
    const int built = Count(Verdict::Kind::kNoticed) + Count(Verdict::Kind::kUnnoticed);
    std::printf(
        "\n%d faults: %d noticed, %d not; besides, %d do not compile and %d change no object code; %.0f minutes\n",
        built, Count(Verdict::Kind::kNoticed), Count(Verdict::Kind::kUnnoticed), Count(Verdict::Kind::kInvalid),
        Count(Verdict::Kind::kEquivalent), minutes);
    for (const std::string& line : unnoticed_) std::printf("not noticed: %s\n", line.c_str());
    return Count(Verdict::Kind::kNoticed) * 100 >= built * 95 ? 0 : 1;
  }

 private:
  int Count(Verdict::Kind kind) const { return counts_[static_cast<int>(kind)]; }

  mutable std::mutex mutex_;
  int counts_[4] = {};
  std::vector<std::string> unnoticed_;
};

int Run(const Arguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Mutation> mutations = AllMutations(arguments.only);
  CROSSTALK_CHECK(!mutations.empty(), "no file of these names has a place for a fault");
  Shuffle(arguments.seed, &mutations);
  std::printf("%zu faults can be put into %s\n", mutations.size(),
              arguments.only.empty() ? "kernels, autograd, nn and models" : "the files chosen");
  std::fflush(stdout);

  std::vector<MutantTree> trees;
  trees.push_back(MutantTree::Create(arguments.folder + "/1", 2 * arguments.jobs));
  for (int i = 2; i <= arguments.jobs; ++i) trees.push_back(trees[0].Copy(StrCat(arguments.folder, "/", i)));

  Tally tally;
  std::atomic<size_t> next{static_cast<size_t>(std::max(arguments.from, 1)) - 1};
  std::vector<std::future<void>> workers;
  for (MutantTree& tree : trees) {
    workers.push_back(std::async(std::launch::async, [&] {
      while (tally.Built() < arguments.count) {
        const size_t draw = next++;
        if (draw >= mutations.size()) return;
        tally.Add(static_cast<int>(draw) + 1, mutations[draw], tree.Try(mutations[draw]));
      }
    }));
  }
  for (std::future<void>& worker : workers) worker.get();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return tally.Print(seconds.count() / 60);
}

}  // namespace

}  // namespace crosstalk

int main(int argc, char** argv) {
  try {
    CROSSTALK_CHECK(argc >= 6, "usage: mutants FOLDER COUNT SEED JOBS FROM [PART_OF_PATH …]");
    return crosstalk::Run({.folder = argv[1],
                           .count = std::stoi(argv[2]),
                           .seed = std::stoull(argv[3]),
                           .jobs = std::stoi(argv[4]),
                           .from = std::stoi(argv[5]),
                           .only = std::vector<std::string>(argv + 6, argv + argc)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mutants: %s\n", error.what());
    return 2;
  }
}
