#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "crosstalk/models/training/run.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"
#include "tools/page/run_page.h"

namespace crosstalk::fuzz {
namespace {

constexpr int64_t kSteps = 2;
constexpr int64_t kMaxBatches = 8;  // of an evaluation
constexpr char kRun[] = "run";
constexpr char kManifest[] = "manifest.json";

TrainingConfig TinyConfig() {
  TrainingConfig config;
  config.data.tokenizer = "bytes";
  config.model.name = "t5";
  config.objective.input_length = 8;
  config.model.d_model = 4;
  config.model.d_ff = 4;
  config.model.layers = 1;
  config.model.attention.heads = 2;
  config.optimization.steps = kSteps;
  config.optimization.batch = 1;
  config.run.eval_batches = 1;
  config.run.eval_every = 1;
  config.run.checkpoint_every = 1;
  return config;
}

// Trains from the folder's newest checkpoint, or from the beginning, to the end.
void Train(const TrainingConfig& config, const std::string& folder, const StopRequest& stop = {}) {
  ResumeOptions resume;
  resume.from = ResumeOptions::From::kNewest;
  TrainingObserver observer;
  observer.stop = stop;
  TrainingRun(ResolvedConfig(config), folder, resume, observer).Train();
}

// A run that was stopped after its first step, as files; and what its second step makes of it.
struct Pristine {
  std::map<std::string, std::string> files;       // of the folder, except the checkpoint's
  std::map<std::string, std::string> checkpoint;  // of step 1, except the manifest
  std::string manifest;
  Json configuration;
  std::string model;  // the finished run's model.safetensors
};

Pristine MakePristine(const std::string& folder) {
  int steps = 0;
  Train(TinyConfig(), folder, [&] { return ++steps > 1; });
  Pristine pristine;
  const std::string checkpoint = CheckpointStore(RunFolder(folder).CheckpointDirectory()).PathOf(1);
  for (const std::string& name : ListDirectory(checkpoint)) {
    (name == kManifest ? pristine.manifest : pristine.checkpoint[name]) = ReadFile(checkpoint + "/" + name);
  }
  for (const std::string& name : ListDirectory(folder)) {
    if (name != "lock" && name != "checkpoints") pristine.files[name] = ReadFile(folder + "/" + name);
  }
  pristine.configuration = ToJson(ReadRunConfig(RunFolder(folder)));
  Train(TinyConfig(), folder);
  pristine.model = ReadFile(RunFolder(folder).ModelFile());
  return pristine;
}

// The folder with `bytes` instead of file `name`: in the checkpoint, under a manifest that fits it.
void WriteFolder(const std::string& folder, const Pristine& pristine, const std::string& name, std::string_view bytes) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const auto& [file, content] : pristine.files) {
    PutFile(folder + "/" + file, file == name ? bytes : content);
  };
  CheckpointStore store(RunFolder(folder).CheckpointDirectory());
  std::vector<CheckpointFile> files;
  for (const auto& [file, content] : pristine.checkpoint) {
    files.push_back(BytesFile(file, std::string(file == name ? bytes : content)));
  }
  store.Save(1, files, 5.0);
  if (name == kManifest) PutFile(store.PathOf(1) + "/" + kManifest, bytes);
}

// The fields that name files to read, or training of a tokenizer, are not the input's to choose.
bool ReadsNoFiles(const TrainingConfig& config) {
  return config.data.text.empty() && config.data.validation.empty() && config.optimization.init_from.empty() &&
         config.data.tokenizer == "bytes";
}

// Nothing of a run becomes a tag of its page: it has the one script that it always has, and records of figures, which
// are JSON.
void CheckPage(const std::string& page) {
  Require(page.size() < 5'000'000, "the report is too large");
  int scripts = 0;
  for (size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1)) {
    scripts += page.compare(at, 31, "<script type=\"application/json\"") == 0 ? 0 : 1;
  }
  Require(scripts == 1, "the report has another script");
}

}  // namespace

// "run.json", "config.json", … in the first line, and then that file of a run that was stopped after one of two steps.
// What is refused leaves the files as they are. What is resumed ends in the model that the run would have had, unless
// the parameters themselves are other ones.
void FuzzRunFolder(std::string_view input) {
  static const TempDir directory;
  static const Pristine& pristine = *new Pristine(MakePristine(directory / "pristine"));
  const FirstLine file = SplitFirstLine(input);
  const std::string name(file.line);
  if (pristine.files.count(name) + pristine.checkpoint.count(name) == 0 && name != kManifest) return;
  const std::string path = directory / kRun;
  WriteFolder(path, pristine, name, file.rest);
  const RunFolder folder(path);

  Accepts([&] { ReadMetrics(folder.MetricsFile()); });
  Accepts([&] { OpenRun(path); });
  Accepts([&] { OpenRun(path, {.which = WhichCheckpoint::kBest}); });
  Accepts([&] { CheckPage(RunPage({ReadRun(path)}, {RunInside()})); });
  TrainingConfig config;
  if (!Accepts([&] { config = ReadRunConfig(folder); }) || !ReadsNoFiles(config)) return;
  // More batches than can be evaluated are no fault, but a stop must end them.
  const bool endless = config.run.eval_batches > kMaxBatches;
  if (!Accepts([&] { Train(config, path, [&] { return endless; }); }) || endless) return;
  Require(ToJson(ReadRunConfig(folder)) == ToJson(*ResolvedConfig(config)), "run.json has another configuration");
  Require(OpenRun(path).step == config.optimization.steps, "the last checkpoint is not the last");
  ReadMetrics(folder.MetricsFile());
  if (name.ends_with(".safetensors") || config.optimization.steps > kSteps)
    return;  // it goes on, as one that was continued
  Require(ReadFile(folder.ModelFile()) == pristine.model, "the resumed run ended in another model");
}

}  // namespace crosstalk::fuzz
