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

// Of a model's matrices, at the start and at the end: some six seconds on a processor.
constexpr int64_t kMostCubes = 4'000'000'000;

std::string ScoreText(const RunRecord& run, double value) { return MetricText({run.held_out[0].name, 0}, value, 4); }

std::string ScoreLabel(const RunRecord& run) { return MeasureLabel(run.held_out[0].name); }

std::string ProgressText(const RunRecord& run) {
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
                   !run.config    ? ""
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
  std::vector<std::vector<TableCell>> rows;
  // Named in the header where it is one measure, else in each row.
  std::set<std::string> labels;
  for (const RunRecord& run : runs) {
    if (!run.held_out.empty()) labels.insert(ScoreLabel(run));
  }
  const auto score = [&labels](const RunRecord& run, const std::optional<RunScore>& one) -> std::string {
    if (!one) return "";
    return StrCat(labels.size() > 1 ? ScoreLabel(run) + " " : "", ScoreText(run, one->value));
  };
  for (const RunRecord& run : runs) {
    const std::optional<RunScore> best = run.Best(), last = run.Last();
    const std::optional<double> speed = run.TokensPerSecond();
    rows.push_back({run.name, AttentionText(run), ProgressText(run),
                    run.Parameters() ? CountText(*run.Parameters()) : "", score(run, best), score(run, last),
                    run.step_seconds.empty() ? "" : FixedText(1000 * Median(run.step_seconds), 1),
                    speed ? CountText(std::llround(*speed)) : ""});
  }
  return HtmlTable(
      {"run", "attention", "steps", "parameters", "best held-out" + (labels.size() == 1 ? " " + *labels.begin() : ""),
       "last", "ms a step", "tokens a second"},
      rows, {.caption = "The runs"});
}

std::string MissingNotice(const std::vector<RunRecord>& runs) {
  std::string items;
  for (const RunRecord& run : runs) {
    for (const std::string& one : run.missing) {
      items += StrCat("<li>", EscapeHtml(runs.size() > 1 ? StrCat(run.name, ": ", one) : one), "</li>\n");
    }
  }
  return items.empty() ? "" : StrCat("<div class=\"notice\" role=\"note\"><ul>\n", items, "</ul></div>\n");
}

std::string ModelSection(const RunRecord& run) {
  const Json* model = run.run.Find("model");
  if (model == nullptr || !run.config) return "";
  try {
    const ModelCost cost = CostOfModel(*run.config, *model, "run.json: model");
    std::vector<std::vector<TableCell>> rows;
    for (const PlaceCost& place : cost.places) {
      rows.push_back({place.name, ToString(place.layer), CountText(place.n), CountText(place.m),
                      CountText(place.cost.parameters), CountText(place.cost.multiplications)});
    }
    return StrCat(
        FactList(
            {{"model", cost.text, cost.implementation + " attention"},
             {"parameters", CountText(cost.parameters), ""},
             {"multiplications of an example", CountText(cost.forward_multiplications), "forward; " + cost.example}}),
        HtmlTable({"place", "attention", "n", "m", "parameters of a layer", "multiplications of a layer"}, rows,
                  {.caption = "One layer of each place, on one example of n queries and m memory positions, as the "
                              "paper's pseudocode counts"}));
  } catch (const Error& error) {
    return StrCat("<p class=\"note\">", EscapeHtml(error.what()), "</p>\n");
  }
}

std::string ScoresTable(const RunRecord& run) {
  const Json* tasks = run.scores.is_object() ? run.scores.Find("tasks") : nullptr;
  if (tasks == nullptr || !tasks->is_object()) return "";
  const auto number = [](const Json* value) {
    return value != nullptr && value->is_number() ? FixedText(value->AsDouble(), 4) : std::string("undefined");
  };
  std::vector<std::vector<TableCell>> rows;
  for (const auto& [name, task] : tasks->AsObject()) {
    if (!task.is_object()) continue;
    const Json* guess = task.Find("constant_guess");
    for (const auto& [key, value] : task.AsObject()) {
      if (key == "score" || value.is_object()) continue;
      const Json* constant = guess != nullptr && guess->is_object() ? guess->Find(key) : nullptr;
      rows.push_back({name, key, number(&value), constant == nullptr ? "" : number(constant)});
    }
  }
  const Json* step = run.scores.Find("step");
  const std::string at = step != nullptr && step->is_int() ? StrCat(", by the checkpoint of step ", step->AsInt()) : "";
  return StrCat(
      FactList({{"score", number(run.scores.Find("score")), "mean over the tasks"}}),
      HtmlTable({"task", "measure", "held-out", "best constant answer"}, rows, {.caption = "Held-out rows" + at}));
}

std::string SessionsTable(const RunRecord& run) {
  if (run.sessions.empty()) return "";
  std::vector<std::vector<TableCell>> rows;
  for (size_t i = 0; i < run.sessions.size(); ++i) {
    const RunSession& one = run.sessions[i];
    rows.push_back({CountText(one.from_step), i == 0 && one.from_step == 0 ? "began" : "resumed",
                    one.threads > 0 ? CountText(one.threads) : "", one.simd_target, one.platform.cpu_name,
                    one.version});
  }
  std::string html = HtmlTable({"after step", "", "threads", "SIMD", "processor", "version"}, rows,
                               {.caption = "Sessions: each is a process that trained"});
  for (const RunEvent& event : run.Events()) {
    if (event.kind != RunEvent::Kind::kContinued) continue;
    html += StrCat("<p>The run was of ", StepsText(event.step), ", and was continued from there.</p>\n");
  }
  return html;
}

std::string Origins(const RunRecord& run) {
  const auto text = [&run](const char* key) {
    const Json* value = run.run.Find(key);
    return value != nullptr && value->is_string() ? value->AsString() : std::string();
  };
  std::vector<std::vector<TableCell>> rows = {{"folder", run.folder}};
  if (!text("data").empty()) rows.push_back({"data", text("data")});
  if (!text("data_fingerprint").empty()) rows.push_back({"its fingerprint", text("data_fingerprint")});
  if (const Json* origin = run.run.Find("origin"); origin != nullptr && origin->is_object()) {
    const Json* checkpoint = origin->Find("checkpoint");
    if (checkpoint != nullptr && checkpoint->is_string()) rows.push_back({"began with", checkpoint->AsString()});
  }
  if (run.held_out_examples > 0) {
    rows.push_back(
        {"held out", StrCat(CountText(run.held_out_examples), " examples",
                            run.held_out_tokens > 0 ? StrCat(", ", CountText(run.held_out_tokens), " tokens") : "")});
  }
  return HtmlTable({"", ""}, rows);
}

std::string SamplesHtml(const RunInside& inside) {
  std::string html;
  std::string title;
  for (const Sample& sample : inside.samples) {
    if (sample.title != title) html += StrCat("<h3>", EscapeHtml(sample.title), "</h3>\n");
    title = sample.title;
    html += SampleHtml(sample);
  }
  if (!inside.samples.empty()) {
    html += StrCat("<p class=\"note\">Computed in ", Name(inside.precision), ", as the run was trained.</p>\n");
  }
  if (!inside.problem.empty()) html += StrCat("<p class=\"note\">", EscapeHtml(inside.problem), "</p>\n");
  return html;
}

// Of each run under its name, where there are several.
template <typename Part>
std::string ForEach(const std::vector<RunRecord>& runs, Part part) {
  std::string html;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string one = part(i);
    if (one.empty()) continue;
    html += runs.size() > 1 ? StrCat("<h3>", EscapeHtml(runs[i].name), "</h3>\n", one) : one;
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

// Where those of each run are, for a page has room for those of one.
std::string WhereProjectionsAre(const std::vector<RunRecord>& runs) {
  std::string items;
  for (const RunRecord& run : runs) {
    if (!run.config || !MixesHeads(*run.config)) continue;
    items += StrCat("<li><code>crosstalk report ", EscapeHtml(ShellQuoted(run.folder)), "</code></li>\n");
  }
  if (items.empty()) return "";
  return StrCat(
      "<p>P_l, P_w and P_l·P_w of every layer are on the page of a run alone, which is report.html in its "
      "folder:</p>\n<ul class=\"long\">\n",
      items, "</ul>\n");
}

// The run whose heads the page says something of; null where there is none.
const RunInside* WithMixing(const std::vector<RunInside>& insides) {
  for (const RunInside& inside : insides) {
    if (!inside.mixing.empty()) return &inside;
  }
  return nullptr;
}

void AddSection(Page& page, const std::string& heading, const std::string& html) {
  if (!html.empty()) page.AddSection(heading, html);
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
      inside.projections = StrCat("<p class=\"note\">Not shown: ", EscapeHtml(error.what()), "</p>\n");
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
  if (!mixing.empty()) page.AddSection("What mixing does", missing + mixing);
  page.AddSection(one ? "In short" : "Overview",
                  (mixing.empty() ? missing : "") + (one ? Facts(runs[0]) : Overview(runs)));
  AddSection(page, "Settings", SettingsSection(runs));
  AddSection(page, "Curves", RunCharts(runs));
  AddSection(page, "Scores", ForEach(runs, [&](size_t i) { return ScoresTable(runs[i]); }));
  if (!one) AddSection(page, "Differences", ConfigurationDifferences(runs));
  AddSection(page, "Model", ForEach(runs, [&](size_t i) { return ModelSection(runs[i]); }));
  AddSection(page, "Samples", ForEach(runs, [&](size_t i) { return SamplesHtml(insides.at(i)); }));
  AddSection(page, "Head projections",
             one || mixed != nullptr ? ForEach(runs, [&](size_t i) { return insides.at(i).projections; })
                                     : WhereProjectionsAre(runs));
  AddSection(page, "How it ran", ForEach(runs, [&](size_t i) { return Origins(runs[i]) + SessionsTable(runs[i]); }));
  AddSection(page, "Configuration", one ? ConfigurationTable(runs[0]) : SharedConfiguration(runs));
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
