// Training runs, a step a call.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "crosstalk/models/bindings/c/crosstalk.h"
#include "crosstalk/models/bindings/c/handles.h"
#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/models/training/run.h"

namespace crosstalk::c {
namespace {

TrainingObserver ObserverOf(const ct_observer* given) {
  TrainingObserver observer;
  if (given == nullptr) return observer;
  if (given->message != nullptr) {
    observer.message = [tell = *given](const std::string& text) { tell.message(tell.context, text.c_str()); };
  }
  if (given->evaluation != nullptr) {
    observer.evaluation = [tell = *given](const RunEvaluation& evaluation) {
      tell.evaluation(tell.context, EvaluationEvent(evaluation).Dump().c_str());
    };
  }
  if (given->stop != nullptr) {
    observer.stop = [tell = *given] { return tell.stop(tell.context) != 0; };
  }
  return observer;
}

ResumeOptions ResumeFrom(const std::string& resume, const std::string& folder) {
  if (resume == "none") return {};
  if (resume != "auto" && resume != "if-any") return {.from = ResumeOptions::From::kPath, .path = resume};
  if (!RunFolder(folder).HoldsRun()) return {};
  return {.from = ResumeOptions::From::kNewest, .path = {}};
}

ResolvedConfig ConfigOf(const std::string& folder, const char* text, const ResumeOptions& resume) {
  const Given given = ParseGiven(text);
  given.Over(TrainingFields());
  given.CheckAllRead();  // before anything is looked for
  TrainingConfig config =
      resume.from == ResumeOptions::From::kNothing ? ConfigToBegin(given) : ConfigToResume(given, resume, folder);
  MakePathsAbsolute(&config);
  return ResolvedConfig(config);
}

class TrainingObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kTraining;
  TrainingObject(const ResolvedConfig& config, const std::string& folder, const ResumeOptions& resume,
                 const ct_observer* observer)
      : Object(kKind), run(config, folder, resume, ObserverOf(observer)) {}

  Json Describe() const override {
    return Json::MakeObject({{"description", run.model().Describe()},
                             {"folder", run.folder().path()},
                             {"step", run.step()},
                             {"parameters", run.model().NumParameters()},
                             {"data", run.data().description},
                             {"configuration", ToJson(run.config())}});
  }
  const Module& module() const override {
    Fail(ErrorKind::kUsage, "the parameters are the model's: ct_training_model");
  }

  TrainingRun run;
  std::optional<StepResult> last;
  bool finished = false;
};

// False where the run is at its end.
bool Step(TrainingObject& training) {
  if (training.finished) return false;
  if (std::optional<StepResult> result = training.run.NextStep()) {
    training.last = std::move(result);
    return true;
  }
  if (training.run.Finish().end == TrainingSummary::End::kStopped) throw Interrupted();
  training.finished = true;
  return false;
}

Json MetricsOf(const TrainingObject& training) {
  const std::optional<RunEvaluation>& evaluation = training.run.last_evaluation();
  const Json held_out = evaluation ? EvaluationEvent(*evaluation) : Json();
  if (!training.last) return Json::MakeObject({{"step", training.run.step()}, {"evaluation", held_out}});
  return StepEvent(*training.last).Set("evaluation", held_out);
}

}  // namespace
}  // namespace crosstalk::c

extern "C" {

ct_status ct_training_open(const char* folder, const char* configuration, const char* resume,
                           const ct_observer* observer, ct_training** training) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(folder, "folder");
    CheckGiven(training, "training");
    CROSSTALK_CHECK(*folder != '\0', "folder is empty");
    const crosstalk::ResumeOptions from = ResumeFrom(resume == nullptr ? "none" : resume, folder);
    const crosstalk::ResolvedConfig config = ConfigOf(folder, configuration, from);
    GiveHandle(std::make_shared<TrainingObject>(config, folder, from, observer), training);
  });
}

ct_status ct_training_step(ct_training* training, int* more) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(more, "more");
    const auto object = Find<TrainingObject>(training, "training");
    const Use use(*object, Access::kAlone);
    *more = Step(*object) ? 1 : 0;
  });
}

ct_status ct_training_metrics(const ct_training* training, const char** json) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(json, "json");
    const auto object = Find<TrainingObject>(training, "training");
    const Use use(*object, Access::kShared);
    GiveText(MetricsOf(*object).Dump(), json);
  });
}

ct_status ct_training_save(ct_training* training) {
  using namespace crosstalk::c;
  return Call([&] {
    const auto object = Find<TrainingObject>(training, "training");
    const Use use(*object, Access::kAlone);
    object->run.Save();
  });
}

ct_status ct_training_model(const ct_training* training, ct_model** model) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(model, "model");
    const auto object = Find<TrainingObject>(training, "training");
    const crosstalk::TrainingRun& run = object->run;
    const std::shared_ptr<const crosstalk::Model> part(object, &run.model());
    ModelParts parts = {.model = part, .tokenizer = run.data().tokenizer, .source = run.folder().path()};
    parts.config = run.config();
    GiveHandle(std::make_shared<ModelObject>(std::move(parts), object->lock()), model);
  });
}

}  // extern "C"
