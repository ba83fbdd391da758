// `crosstalk bench`: the table of what this machine does of what it could, and the same as JSON.
#include "tools/lab/bench/bench.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/gemm/openblas.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/storage.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"

namespace crosstalk {
namespace {

struct Settings {
  BenchSettings bench;
  std::vector<std::string> filter;
  std::optional<Precision> precision;
  std::optional<std::string> json;
  bool list = false;
  bool scaling = false;
};

FieldTable<Settings> BenchFields() {
  using S = Settings;
  using B = BenchSettings;
  return Joined(
      Grouped<S>("What",
                 {MakeOption("--filter", &S::filter, "TEXTS",
                             "Only these benchmarks, by names or parts of names, separated by commas."),
                  MakeOption("--list", &S::list, "", "Print the names of the benchmarks, and measure nothing."),
                  MakeOption("--scaling", &S::scaling, "",
                             "Instead: one layer (talking, 24 heads) on 1, 2, … all threads and for n = 64 … 4096, "
                             "with the time of an operation and of a byte."),
                  MakeOption("--precision", &S::precision, "",
                             "Only these, NAME-bf16 being those in bf16; by default fp32, and bf16 beside it if "
                             "there is a goal for it or --filter has its name.")}),
      Grouped<S>("Output",
                 {MakeOption("--json", &S::json, "FILE",
                             "Rewrite the list of results here after each benchmark, in addition to the table.",
                             {.is_path = true})}),
      FieldsOfPart(
          Joined(
              Grouped<B>(
                  "Sizes",
                  {MakeOption(
                       "--batch", &B::batch, "N",
                       "Examples; else 4, for memory 1, for steps 8, for scaling 2048 / n; rows of decode-NAME-ROWS.",
                       {.range = {1, 100'000}}),
                   MakeOption(
                       "--n", &B::n, "N",
                       "Queries and memory positions, inputs of a step (targets follow as 114 of 512), positions that "
                       "decoding has read (else 128), largest n of scaling; memory-N has its own.",
                       {.range = {1, 1'000'000}})}),
              Grouped<B>("Running", {MakeOption("--repetitions", &B::repetitions, "N",
                                                "Timed runs of each; else what fits in two seconds, at least 3.",
                                                {.range = {1, 1'000'000}})})),
          &S::bench));
}

std::vector<BenchCase> AllCases() {
  std::vector<BenchCase> all;
  for (const auto& cases :
       {LayerBenchCases(), MixingBenchCases(), ProductBenchCases(), MemoryBenchCases(), OperationBenchCases(),
        StepBenchCases(), SmallBenchCases(), TrainingBenchCases(), DecodeBenchCases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

// The measured variants of a case.
struct Chosen {
  BenchCase of;
  std::vector<Precision> precisions;
};

// Whether `name` is `text`, or the same benchmark by the composed path, in bf16 or both.
bool IsVariantOf(const std::string& text, const std::string& name) {
  const auto with = [&](const std::string& suffix) { return name == text + suffix; };
  return with("") || with(kComposedSuffix) || with(kBFloat16Suffix) ||
         with(std::string(kComposedSuffix) + kBFloat16Suffix);
}

// Those that one of the filter's texts names, in all variants, or whose names contain one that names none. Without a
// filter all in float, and in bf16 if there is a goal for it. Only those of --precision, if it is given.
std::vector<Chosen> ChosenCases(const Settings& settings) {
  const bool all = settings.filter.empty();
  std::vector<BenchCase> cases = AllCases();
  std::set<std::string> names;
  for (const BenchCase& one : cases) names.insert({one.name, NameIn(Precision::kBFloat16, one.name)});
  std::vector<Chosen> chosen;
  for (BenchCase& one : cases) {
    std::vector<Precision> precisions;
    for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
      const bool in_bfloat16 = precision == Precision::kBFloat16;
      if (in_bfloat16 && !one.in_bfloat16) continue;
      const std::string name = NameIn(precision, one.name);
      const auto chooses = [&](const std::string& text) {
        return names.contains(text) ? IsVariantOf(text, name) : name.find(text) != std::string::npos;
      };
      const bool meant =
          settings.precision ? precision == *settings.precision : !all || !in_bfloat16 || !one.bfloat16_goal.empty();
      if (meant && (all || std::any_of(settings.filter.begin(), settings.filter.end(), chooses))) {
        precisions.push_back(precision);
      }
    }
    if (!precisions.empty()) chosen.push_back({std::move(one), std::move(precisions)});
  }
  CROSSTALK_CHECK(!chosen.empty(), "--filter: no benchmark",
                  settings.precision ? StrCat(" in ", Name(*settings.precision)) : "", " has ",
                  Quoted(Join(settings.filter, ",")), " in its name; --list shows them all");
  return chosen;
}

std::string PlatformLine() {
  const PlatformInfo platform = GetPlatformInfo();
  return StrCat("crosstalk ", Version(), " on ", platform.cpu_name, ", ", NumThreads(), " of ", platform.processors,
                " processors, SIMD ", kernels::SimdTargetName(), ", BLAS ", kernels::GetOpenBlas().core, "\n");
}

// The unit that multiplies in bf16, whose peak is the reference.
std::string BFloat16Line() {
  return StrCat("bfloat16: ", kernels::BFloat16UnitName(),
                kernels::BFloat16UnitIsHardware()
                    ? ""
                    : ", in software, as this CPU or SIMD target has no instruction: slower than float",
                "\n");
}

std::string Heading() {
  char line[160];
  std::snprintf(line, sizeof(line), "%-24s %7s %11s %11s %6s %6s %6s %9s %10s %8s %7s\n", "", "threads", "forward ms",
                "backward ms", "fwd %", "bwd %", "goal", "peak GF/s", "extra MiB", "x fused", "x fp32");
  return line;
}

double TimeMs(const BenchResult& r) { return r.decode.has_value() ? r.decode->step_ms : r.whole_ms; }

std::string DecodeRow(const std::string& name, const BenchResult::Decode& decode, const std::string& goal,
                      const std::string& times_fp32) {
  char line[280];
  std::snprintf(line, sizeof(line),
                "%-24s %.3f ms a step, %.1f tokens/s; the quickest %.3f ms, %.2f × reading %.1f MB of weights and %.1f "
                "of cache at %.1f GB/s%s%s\n",
                name.c_str(), decode.step_ms, decode.tokens_per_second, decode.least_ms, decode.TimesReading(),
                1e-6 * static_cast<double>(decode.weight_bytes), 1e-6 * static_cast<double>(decode.cache_bytes),
                decode.gigabytes_per_second, goal.empty() ? "" : (" (goal " + goal + ")").c_str(),
                times_fp32.empty() ? "" : ("; " + times_fp32 + " x fp32").c_str());
  return line;
}

std::string OperationRow(const std::string& name, const BenchResult::Operation& operation, const std::string& goal) {
  const auto ns = [](double value) { return FixedText(value, 0) + " ns"; };
  char line[64];
  std::snprintf(line, sizeof(line), "%-24s ", name.c_str());
  return StrCat(line, ns(operation.TotalNs()), goal.empty() ? "" : StrCat(" (goal ", goal, ")"),
                operation.backward_ns == 0 ? ""
                                           : StrCat(": value ", ns(operation.value_ns), ", node ",
                                                    ns(operation.node_ns), ", backward ", ns(operation.backward_ns)),
                "; ", FixedText(operation.allocations, 1), " allocations\n");
}

std::string Ratio(double of, double to) {
  char text[24];
  std::snprintf(text, sizeof(text), "%.2f", of / to);
  return text;
}

// The references of a row, each null where it was not measured.
struct Compared {
  const BenchResult* fused = nullptr;    // the same benchmark by the fused path
  const BenchResult* in_fp32 = nullptr;  // the same in float
};

std::string Row(const BenchResult& r, const std::string& goal, const Compared& with) {
  const std::string times_fp32 = with.in_fp32 == nullptr ? "" : Ratio(TimeMs(*with.in_fp32), TimeMs(r));
  if (r.decode.has_value()) return DecodeRow(r.name, *r.decode, goal, times_fp32);
  if (r.operation.has_value()) return OperationRow(r.name, *r.operation, goal);
  const std::string of_fused = with.fused == nullptr ? "" : Ratio(TimeMs(r), TimeMs(*with.fused));
  char line[200];
  std::snprintf(line, sizeof(line), "%-24s %7d %11.3f %11.3f %6.1f %6.1f %6s %9.0f %10.2f %8s %7s\n", r.name.c_str(),
                r.threads, r.forward_ms, r.backward_ms, 100 * r.ShareForward(), 100 * r.ShareBackward(), goal.c_str(),
                r.peak_gflops, static_cast<double>(r.extra_bytes) / (1 << 20), of_fused.c_str(), times_fp32.c_str());
  if (!r.step.has_value()) return line;
  char step[160];
  const bool quick = r.step->seconds < 0.1;
  std::snprintf(step, sizeof(step), "%-24s %.*f %s a step, %.1f %% of the peak, %.0f tokens/s, %lld allocations", "",
                quick ? 1 : 4, quick ? 1e6 * r.step->seconds : r.step->seconds, quick ? "µs" : "s",
                100 * r.ShareWhole(), r.step->tokens_per_second, static_cast<long long>(r.allocations));
  const double resident = 1e-9 * static_cast<double>(r.step->peak_resident_bytes);
  return StrCat(line, step, resident > 0 ? StrCat(", at most ", FixedText(resident, 2), " GB resident") : "", "\n");
}

void WriteJson(const std::string& path, const std::vector<BenchResult>& results) {
  Json list = Json::MakeArray();
  for (const BenchResult& result : results) list.Append(ToJson(result));
  WriteFileAtomically(path, list.DumpPretty());
}

// As "talking-12" for "talking-12-composed" without "-composed".
std::string Without(std::string name, const std::string& part) {
  const size_t at = name.find(part);
  return at == std::string::npos ? name : name.erase(at, part.size());
}

void RunCases(const std::vector<Chosen>& cases, const Settings& settings) {
  PrintResult(Heading());
  std::vector<BenchResult> results;
  const auto other = [&](const BenchResult& result, const char* part) -> const BenchResult* {
    const std::string name = Without(result.name, part);
    if (name == result.name) return nullptr;
    const auto found = std::find_if(results.begin(), results.end(),
                                    [&](const auto& r) { return r.name == name && r.threads == result.threads; });
    return found == results.end() ? nullptr : &*found;
  };
  for (const auto& [of, precisions] : cases) {
    BenchSettings bench = settings.bench;
    bench.precisions = precisions;
    const std::vector<BenchResult> own = of.run(bench);
    ReleaseCachedMemory();
    results.insert(results.end(), own.begin(), own.end());
    for (const BenchResult& result : own) {
      PrintResult(Row(result, result.precision == Precision::kBFloat16 ? of.bfloat16_goal : of.goal,
                      {.fused = other(result, kComposedSuffix), .in_fp32 = other(result, kBFloat16Suffix)}));
    }
    // After every case, so that an interrupted run keeps what it has measured.
    if (settings.json.has_value()) WriteJson(*settings.json, results);
  }
}

int Run(const Settings& settings) {
  CROSSTALK_CHECK(!settings.scaling || (settings.filter.empty() && !settings.list),
                  "--scaling measures one layer: it takes neither --filter nor --list");
  const std::vector<Chosen> cases = ChosenCases(settings);
  if (settings.list) {
    for (const auto& [of, precisions] : cases) {
      for (const Precision precision : precisions) PrintResult(NameIn(precision, of.name) + "\n");
    }
    return 0;
  }
  if (settings.json) CheckOutput("--json", *settings.json);
  const std::string& warning = kernels::GetOpenBlas().warning;
  if (!warning.empty()) PrintMessage(warning);
  PrintResult(PlatformLine());
  if (settings.scaling) {
    BenchSettings bench = settings.bench;
    if (settings.precision) bench.precisions = {*settings.precision};
    if (bench.precisions.front() == Precision::kBFloat16) PrintResult(BFloat16Line());
    const std::vector<BenchResult> results = RunScaling(bench);
    if (settings.json.has_value()) WriteJson(*settings.json, results);
    return 0;
  }
  const auto in_bfloat16 = [](const Chosen& one) { return one.precisions.back() == Precision::kBFloat16; };
  if (std::any_of(cases.begin(), cases.end(), in_bfloat16)) PrintResult(BFloat16Line());
  RunCases(cases, settings);
  return 0;
}

constexpr const char* kDescription =
    "Measures the library's speed and memory against the machine's limits: whole attention layers (d = 768, batch 4, "
    "512 "
    "positions), the head mixing alone, the matrix products of a T5 (beside OpenBLAS on one thread), memory against "
    "the number of positions, and whole training steps of a T5 "
    "(d = 512, 6 + 6 layers, batch 8 of 512 inputs and 114 targets), and of the small models that are trained on a CPU "
    "with everything in them (train-NAME); layers, mixing, steps and memory up to 2048 "
    "positions also by the composed path (NAME-composed). small-D-KIND is a step of a language model of letters with "
    "d = D, on one thread and on all; the batch is made before the clock runs. operation-NAME is the time of an "
    "operation on 16 numbers: of its value, its node and its gradient; or of a part, such as an allocation. "
    "allocations counts the calls of operator new by the main thread. decode-NAME-ROWS is a step of decoding with so "
    "many rows, "
    "the quickest beside the time that reading the weights and the cache takes at the rate at which this process reads "
    "memory. NAME-bf16 is NAME with its products in bfloat16, the two run in turn: of the layers and the step with a "
    "goal for it, of others where --filter or --precision asks for it. "
    "Times are medians. fwd % and bwd % are shares of the peak: the rate of multiply-adds on registers alone "
    "(peak GF/s in the table; in bf16 of what multiplies bfloat16, which the heading names), measured right before and "
    "after each benchmark, the larger counts. Only the "
    "operations of the paper's pseudocode count, twice those backward. goal is this project's own, forward / "
    "backward, or in bf16 against float. extra MiB is the most memory held beyond inputs and outputs. x fused is the "
    "time as a multiple of the fused path's, x fp32 how many times quicker bf16 is than float. Nothing else should run "
    "on the machine meanwhile.";

}  // namespace

Json ToJson(const BenchResult& r) {
  Json json = Json::MakeObject({{"name", r.name}, {"precision", Name(r.precision)}});
  if (r.precision == Precision::kBFloat16) json.Set("bfloat16_unit", kernels::BFloat16UnitName());
  if (r.decode.has_value()) {
    json.Set("rows", r.decode->rows);
    json.Set("step_ms", r.decode->step_ms);
    json.Set("least_ms", r.decode->least_ms);
    json.Set("tokens_per_second", r.decode->tokens_per_second);
    json.Set("weight_bytes", r.decode->weight_bytes);
    json.Set("cache_bytes", r.decode->cache_bytes);
    json.Set("gigabytes_per_second", r.decode->gigabytes_per_second);
    json.Set("times_reading", r.decode->TimesReading());
    json.Set("threads", r.threads);
    json.Set("simd_target", r.simd_target);
    return json;
  }
  if (r.operation.has_value()) {
    json.Set("value_ns", r.operation->value_ns);
    json.Set("node_ns", r.operation->node_ns);
    json.Set("backward_ns", r.operation->backward_ns);
    json.Set("allocations", r.operation->allocations);
    json.Set("threads", r.threads);
    json.Set("simd_target", r.simd_target);
    return json;
  }
  json.Set("forward_ms", r.forward_ms);
  json.Set("backward_ms", r.backward_ms);
  json.Set("useful_gflop_forward", r.useful_gflop_forward);
  json.Set("useful_gflop_backward", r.useful_gflop_backward);
  json.Set("peak_gflops", r.peak_gflops);
  json.Set("share_forward", r.ShareForward());
  json.Set("share_backward", r.ShareBackward());
  json.Set("extra_bytes", r.extra_bytes);
  json.Set("allocations", r.allocations);
  json.Set("system_allocations", r.system_allocations);
  json.Set("threads", r.threads);
  json.Set("blas_core", r.blas_core);
  json.Set("simd_target", r.simd_target);
  if (r.step.has_value()) {
    json.Set("seconds", r.step->seconds);
    json.Set("share", r.ShareWhole());
    json.Set("tokens_per_second", r.step->tokens_per_second);
    json.Set("peak_resident_bytes", r.step->peak_resident_bytes);
  }
  return json;
}

Command BenchCommand() {
  return {"bench", "speed and memory beside the machine's limit", kDescription,
          OptionsOf(BenchFields, Run, Computes::kYes)};
}

}  // namespace crosstalk
