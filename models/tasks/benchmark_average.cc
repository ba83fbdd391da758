#include "crosstalk/models/tasks/benchmark_average.h"

#include <limits>

#include "crosstalk/runtime/enum_names.h"

namespace crosstalk {
namespace {

struct Benchmark {
  const char* name;
  std::vector<std::vector<const char*>> tasks;  // those that are one task together stand together
};

const std::vector<Benchmark>& Benchmarks() {
  static const std::vector<Benchmark> benchmarks = {
      {"glue", {{"cola"}, {"sst-2"}, {"mrpc"}, {"sts-b"}, {"qqp"}, {"mnli-m", "mnli-mm"}, {"qnli"}, {"rte"}, {"wnli"}}},
      {"superglue", {{"boolq"}, {"cb"}, {"copa"}, {"multirc"}, {"record"}, {"rte"}, {"wic"}, {"wsc"}}},
  };
  return benchmarks;
}

const Benchmark& FindBenchmark(std::string_view name) { return FindNamed("benchmark", name, Benchmarks()); }

// The mean of those of `tasks` that have a score, and how many these are.
struct Sum {
  double sum = 0;
  int64_t count = 0;
  double Mean() const {
    return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
  }
};

BenchmarkAverage Average(const std::string& name, const Benchmark& benchmark, std::string_view without,
                         const std::map<std::string, double>& scores) {
  Sum over_tasks;
  int64_t of = 0;
  for (const std::vector<const char*>& task : benchmark.tasks) {
    if (task[0] == without) continue;
    ++of;
    Sum over_sets;
    for (const char* set : task) {
      const auto score = scores.find(set);
      if (score == scores.end()) continue;
      over_sets.sum += score->second;
      ++over_sets.count;
    }
    if (over_sets.count == 0) continue;
    over_tasks.sum += over_sets.Mean();
    ++over_tasks.count;
  }
  return {name, over_tasks.Mean(), over_tasks.count, of};
}

}  // namespace

std::vector<std::string> BenchmarkNames() { return NamesIn(Benchmarks()); }

std::vector<std::string> BenchmarkTasks(std::string_view benchmark) {
  std::vector<std::string> names;
  for (const std::vector<const char*>& task : FindBenchmark(benchmark).tasks) {
    names.insert(names.end(), task.begin(), task.end());
  }
  return names;
}

std::vector<BenchmarkAverage> BenchmarkAverages(std::string_view benchmark,
                                                const std::map<std::string, double>& scores) {
  const Benchmark& found = FindBenchmark(benchmark);
  std::vector<BenchmarkAverage> averages = {Average("average", found, "", scores)};
  if (benchmark == "glue") averages.push_back(Average("average_without_wnli", found, "wnli", scores));
  return averages;
}

}  // namespace crosstalk
