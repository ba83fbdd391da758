// The matrix of bits. A row of published_bits.txt is a training; however it is carried out, its model has the sum that
// stands there, and its losses, gradients' norms, optimizer's state, answers and text are the same. The ways to carry
// it out:
//
//   target   each SIMD target of this CPU, and for bfloat16 each of its units
//   threads  1, 2, 3, 7
//   ranks    none, 1, 2, 3, or one for each part of a step: threads of this process (tests/mpi has processes)
//   cut      none; stopped after a step; killed after a checkpoint; both go on elsewhere: on another target, other
//            threads and other ranks. Or continued: finished as it was planned, then given more steps
//   host     the library, the C interface, the command by its options or by a configuration file, Python
//   machines under `make test-arm`, whose target is NEON: x86 trains first and ARM goes on, or ARM first and x86, each
//            of whose targets does
//
// Each row is trained once, in a way that makes most values meet for the first time: in the end each
// value of these axes has met each of the others', and each model, attention, implementation, optimizer and precision,
// which is checked. CROSSTALK_BITS=all trains every row in every way, in half an hour; CROSSTALK_BITS=few the rows that
// have something first of a model, once each; CROSSTALK_BITS=publish (make published-bits) rewrites the file.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/models/bindings/c/crosstalk.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/bits/published.h"
#include "tests/bits/ways.h"
#include "tests/support/command_checks.h"
#include "tests/support/kernel_test.h"
#include "tests/support/temp_dir.h"
#include "tests/support/thread_transport.h"
#include "tests/support/tiny_models.h"
#include "tools/cli/option_table.h"

namespace crosstalk {
namespace bits_test {

using namespace bits;  // ways.h

using Words = std::vector<std::string>;

class PlaceScope {
 public:
  explicit PlaceScope(const Place& place) : threads_(place.threads) {
    kernels::RestrictSimdTarget(place.elsewhere ? "" : place.target);
    kernels::RestrictBFloat16Unit(place.unit);
  }
  ~PlaceScope() {
    kernels::RestrictBFloat16Unit("");
    kernels::RestrictSimdTarget("");
  }

 private:
  ThreadsScope threads_;
};

// ---- Hosts

// Part of a run: from its beginning, or from where it was cut, to its end or to where it stops.
struct Part {
  std::string folder;
  Words options;  // those that are given; of a run that is resumed, few or none
  bool resumed = false;
  int64_t steps = -1;  // then it stops; -1: it goes on to its end. Only in this process
};

Given AsGiven(const Words& options) {
  if (options.empty()) return Given(Json::MakeObject({}));
  OptionTable table;
  table.AddFields(TrainingFields());
  table.Parse(options);
  return table.Values();
}

// JSON of what is given: of a new run the whole configuration, of a resumed one its steps.
std::string JsonOf(const Part& part) {
  if (!part.resumed) {
    TrainingConfig config = ConfigToBegin(AsGiven(part.options));
    MakePathsAbsolute(&config);
    return ToJson(*ResolvedConfig(config)).Dump();
  }
  return part.options.empty() ? "{}" : Json::MakeObject({{"steps", std::stoi(part.options.at(1))}}).Dump();
}

void TrainByLibrary(const Part& part, int ranks) {
  ResumeOptions resume;
  if (part.resumed) resume.from = ResumeOptions::From::kNewest;
  const Given given = AsGiven(part.options);
  const ResolvedConfig config(part.resumed ? ConfigToResume(given, resume, part.folder) : ConfigToBegin(given));
  int64_t done = 0;
  TrainingObserver observer;
  observer.step = [&](const StepResult&) { ++done; };
  observer.stop = [&] { return done == part.steps; };
  if (ranks == 0) {
    TrainingRun(config, part.folder, resume, observer).Train();
    return;
  }
  testing::RunRanks(ranks, [&](testing::ThreadTransport& transport) {
    RankGroup group(transport);
    if (!group.leads()) return ServeRanks(group);
    TrainingRun(config, part.folder, resume, observer, &group).Train();
    EndRanks(group);
  });
}

void TrainByC(const Part& part) {
  ct_training* training = nullptr;
  CROSSTALK_CHECK(ct_training_open(part.folder.c_str(), JsonOf(part).c_str(), part.resumed ? "auto" : nullptr, nullptr,
                                   &training) == CT_OK,
                  ct_last_error());
  int more = 1;
  for (int64_t step = 0; more != 0 && step != part.steps; ++step) {
    CROSSTALK_CHECK(ct_training_step(training, &more) == CT_OK, ct_last_error());
  }
  if (part.steps >= 0) ct_training_save(training);
  ct_free(training);
}

void TrainByCommand(const Part& part, const Place& place, Host host) {
  Words words = {"train", "--out", part.folder, "--simd", place.target, "--threads", std::to_string(place.threads)};
  if (part.resumed) words = Joined(words, {"--resume", "auto"});
  if (host == Host::kFile) {
    PutFile(part.folder + ".json", JsonOf(part));
    words = Joined(words, {"--config", part.folder + ".json"});
  } else {
    words = Joined(words, part.options);
  }
  Succeeded(RunCommand(
      words, {.program = place.elsewhere ? OtherCommand() : "", .environment = {"CROSSTALK_BFLOAT16=" + place.unit}}));
}

constexpr char kPython[] = R"(
import json, sys, crosstalk
folder, configuration, resume, steps, threads = sys.argv[1:]
crosstalk.set_threads(int(threads))
with crosstalk.Training(folder, resume=resume, **json.loads(configuration)) as training:
    while int(steps) != training.description["step"] and training.step():
        pass
)";

// A sanitizer's build is slow, and a plain interpreter cannot load its library: there each row is trained once.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kInstrumented = true;
#else
constexpr bool kInstrumented = false;
#endif
bool HasPython() {
  // An emulated program cannot be loaded by this machine's interpreter.
  return !kInstrumented && !kernels::Emulated() && std::getenv("CROSSTALK_BUILD") != nullptr;
}

void TrainByPython(const Part& part, const Place& place) {
  const std::string source = std::getenv("CROSSTALK_SOURCE"), build = std::getenv("CROSSTALK_BUILD");
  Succeeded(RunCommand({"-c", kPython, part.folder, JsonOf(part), part.resumed ? "auto" : "none",
                        std::to_string(part.steps), std::to_string(place.threads)},
                       {.program = "/usr/bin/python3",
                        .environment = {"PYTHONDONTWRITEBYTECODE=1", "CROSSTALK_SIMD=" + place.target,
                                        "PYTHONPATH=" + source + "/models/bindings/python",
                                        "CROSSTALK_LIBRARY=" + build + "/lib/libcrosstalk.so"}}));
}

void Train(const Part& part, const Place& place, Host host) {
  const PlaceScope scope(place);
  if (place.elsewhere && host != Host::kFile) host = Host::kCommand;
  switch (host) {
    case Host::kLibrary:
      return TrainByLibrary(part, place.ranks);
    case Host::kC:
      return TrainByC(part);
    case Host::kCommand:
    case Host::kFile:
      return TrainByCommand(part, place, host);
    case Host::kPython:
      return TrainByPython(part, place);
  }
}

// ---- What a training leaves

// What must be equal, in the order in which it is computed: {"step 2: loss", "5.25"}, ….
using Results = std::vector<std::pair<std::string, std::string>>;

std::string BitsOf(const Tensor& tensor) {
  const Tensor values = tensor.Contiguous();
  const auto* bytes = static_cast<const char*>(values.raw_data());
  return ChecksumText(Crc64Of({bytes, static_cast<size_t>(values.num_elements()) * SizeOf(values.dtype())}));
}

void AddFile(const std::string& path, Results* results) {
  for (const NamedTensor& tensor : ReadSafetensors(path).tensors) {
    results->emplace_back(StrCat(std::filesystem::path(path).filename().string(), ": ", tensor.name),
                          BitsOf(tensor.tensor));
  }
}

// Adds a loss and gradients of the trained model in double, and the text that it writes in the run's own precision.
void AddModel(const std::string& run, const Batch& batch, Results* results) {
  const Trained in_double = OpenRun(run, {.dtype = DType::kFloat64});
  const LossResult loss = in_double.model->Loss(batch, {.z_loss = 1e-4}, {});
  Backward(loss.Scaled({}));
  results->emplace_back("in double: loss", Json(Means(loss.sums)[0].value).Dump());
  for (const NamedParameter& parameter : in_double.model->Parameters()) {
    if (!parameter.value.grad().defined()) continue;
    results->emplace_back("in double: gradient of " + parameter.name, BitsOf(parameter.value.grad()));
  }
  const Trained own = OpenRun(run);
  const std::unique_ptr<TextWriter> writer = own.model->MakeWriter(own.tokenizer);
  if (writer == nullptr) return;
  const std::string prompt = "The ___ sat";
  SearchOptions options = writer->Defaults(prompt);
  options.max_length = std::min<int64_t>(options.max_length, 8);
  std::string text;
  WriteText(*own.model, *writer, prompt, options, [&](std::string_view piece, Author) { text += piece; });
  results->emplace_back("text", text);
}

Results ResultsOf(const std::string& run, const Batch& batch) {
  Results results;
  for (const Json& line : ReadMetrics(run + "/metrics.jsonl")) {
    for (const auto& [key, value] : line.AsObject()) {
      if (testing::Contains(key, "second") || key == "bytes_sent") continue;  // times, and what goes between ranks
      results.emplace_back(StrCat("step ", line.At("step").Dump(), ": ", key), value.Dump());
    }
  }
  AddFile(run + "/model.safetensors", &results);
  const CheckpointStore store(run + "/checkpoints");
  AddFile(store.PathOf(store.Steps().back()) + "/optimizer.safetensors", &results);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run)) {
    const std::string path = std::filesystem::relative(entry.path(), run).string();
    if (path == "scores.json" || (path.starts_with("predictions/") && entry.is_regular_file())) {
      results.emplace_back(path, ReadBytes(entry.path().string()));
    }
  }
  AddModel(run, batch, &results);
  const Json configuration = RunFolder(run).ReadRunFile().At("configuration");
  for (const auto& [key, value] : configuration.AsObject()) {
    if (key != "checkpoint_every" && key != "keep" && key != "task_data")
      results.emplace_back("run.json: " + key, value.Dump());
  }
  return results;
}

// "" where they are equal; else the first difference.
std::string FirstDifference(const Results& here, const Results& there) {
  for (size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    if (i >= here.size()) return there[i].first + " is missing";
    if (i >= there.size() || here[i].first != there[i].first) return here[i].first + " is in one of them";
    if (here[i].second != there[i].second) {
      return StrCat(here[i].first, " is ", here[i].second, ", not ", there[i].second);
    }
  }
  return "";
}

// Trains a row and returns the sum of its model.
std::string Carry(const PublishedRow& row, const Way& way, const Batch& batch, Results* results) {
  const TempDir dir;
  const std::string run = dir / "run";
  const int64_t steps = std::stoi(row.Get("--steps"));
  Part first = {.folder = run, .options = row.options}, second = {.folder = run, .options = {}, .resumed = true};
  if (way.cut == Cut::kStopped) first.steps = 1;
  if (way.cut == Cut::kKilled) first.options = WithOptions(row.options, {{"--checkpoint-every", "1"}, {"--keep", "2"}});
  if (way.cut == Cut::kContinued) {
    first.options = WithOptions(row.options, {{"--steps", row.Get("--continued-at")}, {"--continued-at", ""}});
    second.options = {"--steps", row.Get("--steps")};
  }
  Train(first, way.first, way.host);
  if (way.cut == Cut::kKilled) {  // as if after the last checkpoint but one
    std::filesystem::remove_all(CheckpointStore(run + "/checkpoints").PathOf(steps));
    for (const char* last : {"model.safetensors", "scores.json", "predictions"}) {
      std::filesystem::remove_all(run + "/" + last);
    }
  }
  if (way.cut != Cut::kNone) Train(second, way.second, way.host);
  const PlaceScope scope(way.cut == Cut::kNone ? way.first : way.second);
  *results = ResultsOf(run, batch);
  return Sha256OfFile(run + "/model.safetensors");
}

// Whether an option of the row has a value that its model has not met.
bool IsFirstOfSomething(const PublishedRow& row, std::set<std::string>* met) {
  const size_t before = met->size();
  for (size_t i = 1; i < row.options.size(); ++i) {
    met->insert(StrCat(row.Get("--model"), " ", row.options[i - 1], " ", row.options[i]));
  }
  return met->size() > before;
}

TEST(BitsTest, ATrainingHasTheBitsOfItsConfigurationHoweverItIsCarriedOut) {
  CROSSTALK_NEEDS_SOURCE();
  const char* const asked = std::getenv("CROSSTALK_BITS");
  const std::string how = asked == nullptr ? "" : asked;
  const bool publish = how == "publish", few = how == "few", all = !how.empty() && !publish && !few;
  // A run waits for the disk at each file; where temporary files may be in memory, they are.
  if (std::filesystem::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 1);
  std::filesystem::current_path(std::getenv("CROSSTALK_SOURCE"));
  PublishedBits published;
  Coverage coverage;
  std::set<std::string> by_python;  // models
  std::set<std::string> met;        // options with their models
  const std::vector<std::string> other_targets = OtherTargets();
  uint64_t draws = 0;
  const auto draw = [&](size_t count) {
    return static_cast<size_t>(UniformInt({.seed = 1, .stream = StreamId("ways")}, draws++, count));
  };
  const auto train_row = [&](PublishedRow& row, bool only_what_has_not_met) {
    std::optional<std::pair<Way, Results>> expected;  // the first
    const ResolvedConfig config(ConfigToBegin(AsGiven(row.options)));
    const Batch batch = MakeBatches(*config, OpenTrainingData(*config), {0})->Get(0, 0);
    const auto train = [&](const Way& way) {
      SCOPED_TRACE(row.name + "\n" + way.Text());
      Results results;
      const std::string sum = Carry(row, way, batch, &results);
      coverage.Add(Coverage::PairsOf(PointOf(row), PointOf(row, way)));
      const bool first = !expected;
      if (first) expected.emplace(way, results);
      EXPECT_EQ(FirstDifference(results, expected->second), "") << "compared with " << expected->first.Text();
      if (publish && first) row.sum = sum;
      EXPECT_EQ(sum, row.sum) << "the published sum";
    };
    Way best;
    int64_t most = -1;
    for (int i = only_what_has_not_met ? 200 : 16; i > 0; --i) {
      const Way way = DrawWay(row, other_targets, draw);
      const int64_t count = coverage.CountNew(Coverage::PairsOf(PointOf(row), PointOf(row, way)));
      if (count > most) best = way, most = count;
    }
    if (only_what_has_not_met && most == 0) return;
    const bool in_float = best.first.unit.empty();
    if (HasPython() && in_float && by_python.insert(row.Get("--model")).second) best.host = Host::kPython;
    train(best);
    for (int i = 0; all && i < 100; ++i) train(DrawWay(row, other_targets, draw));
  };
  for (const bool only_what_has_not_met : {false, true}) {
    for (PublishedRow& row : published.rows) {
      if (::testing::Test::HasFailure() && !publish) break;  // what follows says the same
      if ((kInstrumented || few) && only_what_has_not_met) continue;
      if (!few || IsFirstOfSomething(row, &met)) train_row(row, only_what_has_not_met);
    }
  }
  if (!kInstrumented && !few && !::testing::Test::HasFailure()) coverage.ExpectAll();
  if (publish) published.Write();
}

// What a machine says of the other's run, and makes of it, the other says and makes.
TEST(BitsTest, AnotherMachineReadsTheFoldersOfThisOneAndThisOneIts) {
  if (OtherCommand().empty()) GTEST_SKIP() << "run by `make test-arm`, which has two machines";
  const std::string here = CrosstalkBinary(), there = OtherCommand();
  const auto on = [](const std::string& machine, const Words& words) {
    return Succeeded(RunCommand(words, {.program = machine})).output;
  };
  for (const std::string model : {"t5", "bert", "albert"}) {
    for (const std::string& trained : {here, there}) {
      SCOPED_TRACE(StrCat(model, ", trained by ", trained));
      const TempDir dir;
      on(trained, TinyTrain({"--model", model, "--steps", "2", "--out", dir / "run"}));
      std::vector<std::string> said;
      for (const std::string& machine : {here, there}) {
        const std::string own = dir / (machine == here ? "here" : "there");
        said.push_back(on(machine, {"eval", "--run", dir / "run", "--json", "--eval-batches", "1"}));
        on(machine, {"export", dir / "run", "--out", own + "/export", "--with-extensions"});
        // What this one has exported: both read the same folder.
        on(machine, {"import", dir / "here/export", "--out", own + "/import"});
      }
      EXPECT_EQ(said[0], said[1]);
      Succeeded(RunCommand({"-r", dir / "here", dir / "there"}, {.program = "/usr/bin/diff"}));
    }
  }
}

// A model has rows of each of its objectives, precisions and optimizers, of each attention, fused and composed, of
// parts for ranks, and of a continued run.
TEST(BitsTest, EveryModelHasARowOfEachKind) {
  CROSSTALK_NEEDS_SOURCE();
  std::set<std::string> names, there;
  for (const PublishedRow& row : PublishedBits().rows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(row.sum.size(), 64u) << row.name;
    const Point point = PointOf(row);
    const std::string& model = point.at("model");
    there.insert(model + " " + row.Get("--objective", FindModel(model).objectives[0]));
    for (const char* axis : {"precision", "optimizer"}) there.insert(model + " " + point.at(axis));
    there.insert(model + " " + point.at("implementation") + " " + point.at("attention"));
    for (const char* option : {"--shards", "--continued-at"}) {
      if (!row.Get(option).empty()) there.insert(model + " " + option);
    }
  }
  std::set<std::string> wanted;
  for (const ModelType& model : ModelTypes()) {
    const auto want = [&](const std::string& what) { wanted.insert(StrCat(model.name, " ", what)); };
    for (const char* objective : model.objectives) want(objective);
    for (const std::string& precision : NamesOf<Precision>()) want(precision);
    for (const std::string& optimizer : NamesOf<OptimizerKind>()) want(optimizer);
    for (const std::string& kind : NamesOf<AttentionKind>()) want("fused " + kind), want("composed " + kind);
    want("--shards"), want("--continued-at");
  }
  for (const std::string& kind : wanted) {
    EXPECT_TRUE(there.contains(kind)) << "no row of " << kind << ": add its options to published_bits.txt; "
                                      << "make published-bits fills in the rest";
  }
}

}  // namespace bits_test
}  // namespace crosstalk
