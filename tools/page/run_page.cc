#include "tools/page/run_page.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <new>
#include <optional>
#include <set>

#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/task_results.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/statistics.h"
#include "tools/cli/training.h"
#include "tools/page/mixing.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

// Analysing a model's matrices, at the start and at the end, takes some six seconds on a processor.
constexpr int64_t kMostCubes = 4'000'000'000;

std::string ScoreText(const RunRecord& run, double value) { return MetricText({run.held_out[0].name, 0}, value, 4); }

std::string ScoreLabel(const RunRecord& run) { return MeasureLabel(run.held_out[0].name); }

std::string ProgressText(const RunRecord& run) {
  if (run.imported) return "0, imported";
  return run.config ? StrCat(CountText(run.step), " of ", CountText(run.config->optimization.steps))
                    : CountText(run.step);
}

std::string AttentionText(const RunRecord& run) {
  if (!run.config) return "";
  return StrCat(Name(run.config->model.attention.kind), ", ", run.config->model.attention.heads, " heads");
}

std::string Facts(const RunRecord& run) {
  std::vector<Fact> facts;
  if (const std::optional<RunScore> best = run.Best()) {
    facts.push_back(
        {"best held-out " + ScoreLabel(run), ScoreText(run, best->value), StrCat("at step ", CountText(best->step))});
    const RunScore last = *run.Last();
    facts.push_back({"last", ScoreText(run, last.value), StrCat("at step ", CountText(last.step))});
  }
  facts.push_back({"steps", CountText(run.step),
                   run.imported   ? "an imported model"
                   : !run.config  ? ""
                   : run.finished ? "finished"
                                  : StrCat("of ", CountText(run.config->optimization.steps), ", not finished")});
  if (const std::optional<int64_t> parameters = run.Parameters()) {
    facts.push_back({"parameters", CountText(*parameters), ""});
  }
  if (const std::optional<double> speed = run.TokensPerSecond()) {
    facts.push_back({"tokens a second", CountText(std::llround(*speed)), "median of the steps"});
  }
  if (!run.step_seconds.empty()) {
    facts.push_back({"a step", StrCat(FixedText(1000 * Median(run.step_seconds), 1), " ms"), "median"});
  }
  if (run.seconds > 0 && run.config && run.config->run.log_every == 1) {
    facts.push_back({"time", DurationText(run.seconds), "steps and evaluations"});
  }
  return FactList(facts);
}

std::string Overview(const std::vector<RunRecord>& runs) {
  // Named in the header where it is one measure, else in each row.
  std::set<std::string> labels;
  for (const RunRecord& run : runs) {
    if (!run.held_out.empty()) labels.insert(ScoreLabel(run));
  }
  const bool one_measure = labels.size() == 1;
  const auto score = [&](const RunRecord& run, const std::optional<RunScore>& one) {
    return one ? (one_measure ? "" : ScoreLabel(run) + " ") + ScoreText(run, one->value) : "";
  };
  using R = const RunRecord&;
  const auto count = [](const auto& value) { return CountText(std::llround(value)); };
  const Columns<RunRecord> columns = {
      {"", "run", &RunRecord::name},
      {"", "attention", AttentionText},
      {"", "steps", ProgressText},
      {"", "parameters", [&](R run) { return ValueOf(run.Parameters(), CountText); }},
      {"", "best held-out" + (one_measure ? " " + *labels.begin() : ""), [&](R run) { return score(run, run.Best()); }},
      {"", "last", [&](R run) { return score(run, run.Last()); }},
      {"", "ms a step",
       [](R run) { return run.step_seconds.empty() ? "" : FixedText(1000 * Median(run.step_seconds), 1); }},
      {"", "tokens a second", [&](R run) { return ValueOf(run.TokensPerSecond(), count); }}};
  return HtmlTable(columns, runs, "The runs");
}

std::string MissingNotice(const std::vector<RunRecord>& runs) {
  std::vector<std::string> items;
  for (const RunRecord& run : runs) {
    for (const std::string& one : run.missing) items.push_back(runs.size() > 1 ? StrCat(run.name, ": ", one) : one);
  }
  return items.empty() ? "" : StrCat("<div class=\"notice\" role=\"note\">", Bullets(items), "</div>\n");
}

std::string ScoresTable(const RunRecord& run) {
  const Json* tasks = run.scores.is_object() ? run.scores.Find("tasks") : nullptr;
  if (tasks == nullptr || !tasks->is_object()) return "";
  const auto number = [](const Json* value) {
    return value != nullptr && value->is_number() ? FixedText(value->AsDouble(), 4) : std::string("undefined");
  };
  TextTable table{{"task", "measure", "held-out", "best constant answer"}, {}};
  for (const auto& [name, task] : tasks->AsObject()) {
    if (!task.is_object()) continue;
    const Json* guess = task.Find("constant_guess");
    for (const auto& [key, value] : task.AsObject()) {
      if (key == "score" || value.is_object()) continue;
      const Json* constant = guess != nullptr && guess->is_object() ? guess->Find(key) : nullptr;
      table.rows.push_back({name, key, number(&value), constant == nullptr ? "" : number(constant)});
    }
  }
  const Json* step = run.scores.Find("step");
  const std::string at = step != nullptr && step->is_int() ? StrCat(", by the checkpoint of step ", step->AsInt()) : "";
  return FactList({{"score", number(run.scores.Find("score")), "mean over the tasks"}}) +
         HtmlTable(table, "Held-out rows" + at);
}

std::string SessionsTable(const RunRecord& run) {
  using S = const RunSession&;
  const Columns<RunSession> columns = {
      {"", "after step", [](S one) { return CountText(one.from_step); }},
      {"", "session",
       [&run](S one) { return std::string(&one == &run.sessions[0] && one.from_step == 0 ? "began" : "resumed"); }},
      {"", "threads", [](S one) { return one.threads > 0 ? CountText(one.threads) : ""; }},
      {"", "SIMD", &RunSession::simd_target},
      {"", "processor", [](S one) { return one.platform.cpu_name; }},
      {"", "version", &RunSession::version}};
  std::string html = HtmlTable(columns, run.sessions, "Sessions: each is a process that trained");
  for (const RunEvent& event : run.Events()) {
    if (event.kind != RunEvent::Kind::kContinued) continue;
    html += Paragraph(StrCat("The run was of ", StepsText(event.step), ", and was continued from there."));
  }
  return html;
}

std::string Origins(const RunRecord& run) {
  TextTable table{{"", ""}, {{"folder", run.folder}}};
  const auto add = [&table](const char* name, const Json* from, const char* key) {
    const Json* value = from != nullptr && from->is_object() ? from->Find(key) : nullptr;
    if (value != nullptr && value->is_string()) table.rows.push_back({name, value->AsString()});
  };
  add("data", &run.run, "data");
  add("its fingerprint", &run.run, "data_fingerprint");
  add("began with", run.run.Find("origin"), "checkpoint");
  if (run.held_out_examples > 0) {
    table.rows.push_back(
        {"held out", StrCat(CountText(run.held_out_examples), " examples",
                            run.held_out_tokens > 0 ? StrCat(", ", CountText(run.held_out_tokens), " tokens") : "")});
  }
  return HtmlTable(table);
}

std::string SamplesHtml(const RunInside& inside) {
  std::string html, title;
  for (const Sample& sample : inside.samples) {
    if (sample.title != title) html += Subheading(sample.title);
    title = sample.title;
    html += SampleHtml(sample);
  }
  if (!html.empty()) html += Note(StrCat("Computed in ", Name(inside.precision), ", as the run was trained."));
  return html + Note(inside.problem);
}

// A part of each run, under its name if there are several.
template <typename Part>
std::string ForEach(const std::vector<RunRecord>& runs, Part part) {
  std::string html;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string one = part(i);
    if (one.empty()) continue;
    html += runs.size() > 1 ? Subheading(runs[i].name) + one : one;
  }
  return html;
}

bool MixesHeads(const TrainingConfig& config) {
  const std::optional<AttentionKind> places[] = {config.model.attention.kind, config.model.encoder_self_kind,
                                                 config.model.decoder_self_kind, config.model.encoder_decoder_kind};
  return std::any_of(std::begin(places), std::end(places), [](const std::optional<AttentionKind>& kind) {
    return kind && *kind != AttentionKind::kMultihead && *kind != AttentionKind::kBilinear;
  });
}

// The commands that show them, for a page has room for those of one run.
std::string WhereProjectionsAre(const std::vector<RunRecord>& runs) {
  std::vector<std::string> commands;
  for (const RunRecord& run : runs) {
    if (run.config && MixesHeads(*run.config)) commands.push_back("crosstalk report " + ShellQuoted(run.folder));
  }
  if (commands.empty()) return "";
  return Paragraph(
             "P_l, P_w and P_l·P_w of every layer are on the page of a run alone, which is report.html in its "
             "folder:") +
         Bullets(commands);
}

// The run whose heads the page describes; null if none.
const RunInside* WithMixing(const std::vector<RunInside>& insides) {
  for (const RunInside& inside : insides) {
    if (!inside.mixing.empty()) return &inside;
  }
  return nullptr;
}

}  // namespace

WithProjections ProjectionsOf(const std::vector<RunRecord>& runs, const RunRecord& run) {
  const auto mixes = [](const RunRecord& one) { return one.config && MixesHeads(*one.config); };
  const bool only = runs.size() == 1 || (mixes(run) && std::count_if(runs.begin(), runs.end(), mixes) == 1);
  return only ? WithProjections::kYes : WithProjections::kNo;
}

RunInside LookInside(const RunRecord& run, std::shared_ptr<const TextSource> held_out, int64_t samples,
                     WithProjections with_projections, const StopRequest& stop) {
  RunInside inside;
  const bool writes = run.config && samples > 0 && !ObjectiveOf(*run.config).learns_tasks();
  const bool projections = with_projections == WithProjections::kYes;
  if (!writes && !projections) return inside;
  std::optional<Trained> trained;
  std::string lost;
  try {
    trained = OpenRun(run.folder);
  } catch (const Error& error) {
    lost = error.what();
  }
  if (trained) inside.precision = trained->model->precision();
  if (writes) {
    try {
      if (!trained) Fail(ErrorKind::kData, lost);
      if (held_out == nullptr) held_out = OpenCorpus(*run.config, stop).validation;
      inside.samples = MakeSamples({.config = &*run.config,
                                    .model = trained->model.get(),
                                    .tokenizer = trained->tokenizer,
                                    .held_out = held_out,
                                    .stop = stop},
                                   samples);
      if (trained->step != run.step)
        inside.problem = StrCat("By the checkpoint of step ", CountText(trained->step), ".");
    } catch (const Error& error) {
      inside.problem = StrCat("No sample: ", error.what());
    }
  }
  if (projections && !(stop && stop())) {
    try {
      if (!trained) Fail(ErrorKind::kData, lost);
      const RunMixing mixing = MixingOfRun(run.folder, *trained, held_out, kMostCubes);
      inside.projections = MixingSection(mixing);
      inside.crossing = CrossingText(mixing);
      inside.mixing = WhatMixingDoes(mixing, *trained->model, trained->tokenizer,
                                     held_out == nullptr ? "" : HeldOutText(*held_out, 0));
    } catch (const Error& error) {
      inside.projections = Note(StrCat("Not shown: ", error.what()));
    }
  }
  return inside;
}

std::string RunPage(const std::vector<RunRecord>& runs, const std::vector<RunInside>& insides) {
  const bool one = runs.size() == 1;
  Page page(one ? runs[0].name : StrCat(runs.size(), " runs"));
  page.SetKind(one ? "Crosstalk run" : "Crosstalk runs");
  if (one && runs[0].config) {
    page.SetLead(
        StrCat(runs[0].config->model.name, ", ", AttentionText(runs[0]), ", seed ", runs[0].config->optimization.seed));
  }
  const std::string missing = MissingNotice(runs);
  const RunInside* const mixed = WithMixing(insides);
  const std::string mixing = mixed == nullptr ? "" : mixed->mixing;
  page.AddSection("What mixing does", mixing.empty() ? "" : missing + mixing);
  page.AddSection(one ? "In short" : "Overview",
                  (mixing.empty() ? missing : "") + (one ? Facts(runs[0]) : Overview(runs)));
  page.AddSection("Settings", SettingsSection(runs));
  page.AddSection("Curves", RunCharts(runs));
  page.AddSection("Scores", ForEach(runs, [&](size_t i) { return ScoresTable(runs[i]); }));
  if (!one) page.AddSection("Differences", ConfigurationDifferences(runs));
  page.AddSection("Model", ForEach(runs, [&](size_t i) { return ModelSection(runs[i]); }));
  page.AddSection("Samples", ForEach(runs, [&](size_t i) { return SamplesHtml(insides.at(i)); }));
  page.AddSection("Head projections", one || mixed != nullptr
                                          ? ForEach(runs, [&](size_t i) { return insides.at(i).projections; })
                                          : WhereProjectionsAre(runs));
  page.AddSection("How it ran", ForEach(runs, [&](size_t i) { return Origins(runs[i]) + SessionsTable(runs[i]); }));
  page.AddSection("Configuration", one ? ConfigurationTable(runs[0]) : SharedConfiguration(runs));
  return page.Html();
}

WrittenReport WriteReportAtEnd(const std::string& folder, std::shared_ptr<const TextSource> held_out) {
  const StopRequest stop = [] { return StopSignals::Received() != 0; };
  try {
    const std::vector<RunRecord> runs = ReadRuns({folder});
    CROSSTALK_CHECK(runs.size() <= kMostRuns, runs.size(), " runs are more than a page can show on each other");
    std::vector<RunInside> insides;
    for (const RunRecord& run : runs) {
      insides.push_back(LookInside(run, held_out, kReportSamples, ProjectionsOf(runs, run), stop));
    }
    if (stop()) return {};
    const std::string path = StrCat(folder, "/", kReportName);
    WriteFileAtomically(path, RunPage(runs, insides));
    const RunInside* const mixed = WithMixing(insides);
    return {path, mixed == nullptr ? "" : mixed->crossing};
  } catch (const Interrupted&) {
  } catch (const Error& error) {
    PrintMessage("no report of the run: ", error.what());
  } catch (const std::bad_alloc&) {
    PrintMessage("no report of the run: not enough memory");
  }
  return {};
}

}  // namespace crosstalk
