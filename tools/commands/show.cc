// `crosstalk show`: a run's story in the terminal.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/cli/statistics.h"
#include "tools/cli/training.h"
#include "tools/page/axis.h"
#include "tools/page/run_page.h"

namespace crosstalk {
namespace {

constexpr size_t kNameColumn = 26, kMostSparkline = 60, kFewestSparkline = 10;
constexpr size_t kMostMeasures = 6;
constexpr size_t kMostPath = 4096, kMostName = 100;

struct ShowSettings {
  std::vector<std::string> runs;
  bool json = false;
};

FieldTable<ShowSettings> ShowFields() {
  using S = ShowSettings;
  return {
      MakeOption("RUN", &S::runs, "RUN", "A run's folder, or a folder of runs.", {.is_path = true, .required = true}),
      MakeOption("--json", &S::json, "", "One JSON object a run and line.")};
}

size_t SparklineWidth() {
  winsize size{};
  size_t width = 80;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) width = size.ws_col;
  // The values at both ends follow it.
  const size_t taken = kNameColumn + 24;
  return std::clamp(width > taken ? width - taken : 0, kFewestSparkline, kMostSparkline);
}

class Story {
 public:
  explicit Story(const RunRecord& run) : run_(run) {}

  std::string Text() {
    text_ = Excerpt(run_.folder, kMostPath) + "\n";
    Configuration();
    Course();
    Curves();
    for (const std::string& one : run_.missing) Line("missing", Excerpt(one, 300));
    Next();
    return text_;
  }

 private:
  void Line(std::string name, const std::string& value) {
    name.resize(std::max(name.size() + 1, kNameColumn), ' ');
    text_ += "  " + name + value + "\n";
  }
  std::string Score(double value) const { return MetricText({run_.held_out[0].name, 0}, value, 4); }

  void Configuration() {
    if (!run_.config) return;
    const TrainingConfig& config = *run_.config;
    Line("model", StrCat(config.model.name, ", ", Name(config.model.attention.kind), " attention, ",
                         config.model.attention.heads, " heads, d_model ", config.model.d_model, ", d_ff ",
                         config.model.d_ff, ", ", config.model.layers, " layers",
                         run_.Parameters() ? StrCat("; ", CountText(*run_.Parameters()), " parameters") : ""));
    if (run_.imported) return;
    const Json* data = run_.run.Find("data");
    if (data != nullptr && data->is_string()) Line("data", Excerpt(data->AsString(), 200));
    Line("training", StrCat(StepsText(config.optimization.steps), " of ", config.optimization.batch, " examples of ",
                            ObjectiveOf(config).describe(config.objective)));
    Line("", StrCat(Name(*config.optimization.optimizer), ", ", Name(*config.optimization.schedule), " from ",
                    ShortNumber(*config.optimization.learning_rate), ", warmup ", *config.optimization.warmup,
                    ", seed ", config.optimization.seed));
    if (!config.optimization.init_from.empty()) Line("began with", Excerpt(config.optimization.init_from, 200));
  }

  void Course() {
    Line("state", run_.imported  ? "an imported model, with which no training here has begun"
                  : !run_.config ? StrCat("at step ", CountText(run_.step))
                  : run_.finished
                      ? "finished after " + StepsText(run_.step)
                      : StrCat("at step ", CountText(run_.step), " of ", CountText(run_.config->optimization.steps)));
    for (const RunEvent& event : run_.Events()) {
      Line(event.kind == RunEvent::Kind::kResumed ? "resumed" : "continued", "after step " + CountText(event.step));
    }
    if (!run_.step_seconds.empty()) {
      std::string speed = StrCat(FixedText(1000 * Median(run_.step_seconds), 1), " ms a step");
      if (const std::optional<double> tokens = run_.TokensPerSecond()) {
        speed += StrCat(", ", CountText(std::llround(*tokens)), " tokens/s");
      }
      Line("speed", speed + ", medians; " + DurationText(run_.seconds) + " in all");
    }
  }

  void Curve(const std::string& name, const Series& series, const std::string& first, const std::string& last) {
    const std::string line = Sparkline(series, SparklineWidth(), SparklineStyleOfLocale());
    if (!line.empty()) Line(name, StrCat(line, "  ", first, " to ", last));
  }

  void Curves() {
    if (const Series* loss = run_.Training("loss"); loss != nullptr && !loss->y.empty()) {
      Curve("loss", *loss, ShortNumber(loss->y.front()), ShortNumber(loss->y.back()));
    }
    for (size_t i = 0; i < std::min(run_.held_out.size(), kMostMeasures); ++i) {
      const Series& measure = run_.held_out[i];
      const Metric metric{measure.name, 0};
      Curve("held-out " + Excerpt(MeasureLabel(measure.name), kMostName), measure,
            MetricText(metric, measure.y.front(), 4), MetricText(metric, measure.y.back(), 4));
    }
    if (const std::optional<RunScore> best = run_.Best()) {
      const RunScore last = *run_.Last();
      Line("best " + Excerpt(MeasureLabel(run_.held_out[0].name), kMostName),
           StrCat(Score(best->value), " at step ", CountText(best->step),
                  best->step == last.step ? ", the last"
                                          : StrCat("; last ", Score(last.value), " at step ", CountText(last.step))));
    }
    for (const Metric& guess : run_.constant_guess) {
      if (run_.held_out.empty() || guess.name != run_.held_out[0].name) continue;
      Line("constant guess", Score(guess.value));
    }
    if (run_.loss_lower_bound) Line("entropy bound", FixedText(*run_.loss_lower_bound, 3));
  }

  void Next() {
    const char* const program = program_invocation_name;
    const std::string folder = ShellQuoted(Excerpt(run_.folder, kMostPath));
    std::vector<std::string> lines;
    if (run_.imported) {
      lines.push_back(StrCat(program, " train --init-from ", folder, "   begin a training with its weights"));
    } else if (run_.config && !run_.finished) {
      lines.push_back(StrCat(program, " train --out ", folder, " --resume auto   go on with it"));
    }
    lines.push_back(StrCat(program, " report ", folder, "   the whole of it in a browser"));
    if (run_.finished && !ObjectiveOf(*run_.config).learns_tasks()) {
      lines.push_back(StrCat(program, " train --resume ", folder, " --steps ", 2 * run_.step, "   continue it"));
    }
    for (size_t i = 0; i < lines.size(); ++i) Line(i == 0 ? "what next" : "", lines[i]);
  }

  const RunRecord& run_;
  std::string text_;
};

Json StoryJson(const RunRecord& run) {
  Json events = Json::MakeArray();
  for (const RunEvent& event : run.Events()) {
    events.Append(Json::MakeObject(
        {{"event", event.kind == RunEvent::Kind::kResumed ? "resumed" : "continued"}, {"step", event.step}}));
  }
  Json last = Json::MakeObject();
  for (const Series& measure : run.held_out) last.Set(measure.name, measure.y.back());
  return Json::MakeObject({{"run", run.folder},
                           {"finished", run.finished},
                           {"imported", run.imported},
                           {"step", run.step},
                           {"steps", run.config ? Json(run.config->optimization.steps) : Json()},
                           {"parameters", ToJson(run.Parameters())},
                           {"measure", run.held_out.empty() ? Json() : Json(run.held_out[0].name)},
                           {"best", ToJson(run.Best())},
                           {"last", ToJson(run.Last())},
                           {"held_out", last},
                           {"events", events},
                           {"seconds", run.seconds},
                           {"missing", ToJson(run.missing)},
                           {"configuration", ToJson(run.config)}});
}

int Show(const ShowSettings& settings) {
  const std::vector<RunRecord> runs = ReadRuns(settings.runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (settings.json) {
      PrintResult(StoryJson(runs[i]));
    } else {
      PrintResult((i == 0 ? "" : "\n") + Story(runs[i]).Text());
    }
  }
  return 0;
}

}  // namespace

Command ShowCommand() {
  return {"show", "a run's story in the terminal: configuration, curves, scores",
          "Prints a run's configuration, progress, curves as sparklines, best and last scores, where it was resumed, "
          "and what to do next. Reads only the run's files.",
          OptionsOf(ShowFields, Show, Computes::kNo)};
}

}  // namespace crosstalk
