// `make mutants`: puts one fault at a time into a copy of the sources, builds the tests that stand nearest to it, runs
// them, then those further off, and stops at the first that fails. A fault that no test notices is a test that is
// missing.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "tests/mutants/mutant_tree.h"
#include "tests/mutants/mutation.h"

namespace crosstalk {

namespace {

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
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
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
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&](MutantTree& tree) {
    try {
      while (tally.Built() < arguments.count) {
        const size_t draw = next++;
        if (draw >= mutations.size()) return;
        tally.Add(static_cast<int>(draw) + 1, mutations[draw], tree.Try(mutations[draw]));
      }
    } catch (...) {
      const std::lock_guard<std::mutex> hold(failure_mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> workers;
  for (MutantTree& tree : trees) workers.emplace_back(work, std::ref(tree));
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
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
