// Finetuning: a run on tasks that begins with another's weights, and its published settings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/run_start.h"
#include "crosstalk/models/training/trained.h"

namespace crosstalk {

// A run's configuration from what its user gives of it: over the defaults, over that of the run that is resumed, or
// over that whose weights it begins with.

// The configuration of a new run. Model and tokenizer that are not given are those of the run it starts from.
// Error(kUsage) of the field "model" for another model than that.
TrainingConfig ConfigToBegin(const Given& given);
// The same where `over` puts what is given over a configuration, `defaults` first.
TrainingConfig ConfigToBegin(const std::function<TrainingConfig(TrainingConfig)>& over, const TrainingConfig& defaults);
// The configuration of a run that is resumed, in `folder` or from a checkpoint, which gives what is not said. More
// steps than it has continue it. Error(kUsage) of the field "steps" for fewer.
TrainingConfig ConfigToResume(const Given& given, const ResumeOptions& resume, const std::string& folder);

// Without "." and doubled slashes; empty for nothing. "a/.." stays: where a is a link, that is not the folder that a is
// in. Error(kUsage) of the field where the working folder cannot be told.
std::string AbsolutePath(const char* field, const std::string& path);
// Paths made absolute, so that a run can be continued from anywhere.
void MakePathsAbsolute(TrainingConfig* config);

}  // namespace crosstalk

#pragma GCC visibility push(default)
namespace crosstalk {

// The published length for a model and a task: passes over the examples, or steps.
struct FinetuningLength {
  double epochs = 3;
  int64_t steps = 0;  // where not 0, instead of the passes
  double warmup = 0;  // share of the steps
};

// The model, tokenizer and lengths of the origin, the objective by which its model learns tasks, and published settings
// for the tasks named (docs/finetuning.md has the table). The steps are those of `length` once the examples are
// counted. Error(kUsage) of the field "model" for one that learns no tasks, and as of ParseTasks.
TrainingConfig FinetuningConfig(const Trained& origin, const std::string& tasks, FinetuningLength* length);

// The keys of the fields that a finetuning has from its origin, whatever else is given: of the tokenizer, and
// FixedFields.
std::vector<std::string> FieldsOfTheOrigin();

// Sets steps, and the warm-up that is a share of them, if they are not said otherwise. The examples are counted only
// for steps that follow from passes over them.
void SetSteps(const FinetuningLength& length, const std::function<int64_t()>& count_examples, TrainingConfig* config);

}  // namespace crosstalk
#pragma GCC visibility pop
