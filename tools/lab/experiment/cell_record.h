// A cell's results: all the data of a table, read from its run folders or from its result.json, which
// outlives them. docs/reproduction.md says what stands in that file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/record.h"

namespace crosstalk {

struct PretrainingRecord {
  std::map<std::string, double> values;     // at the last step, by measure: "ln_ppl"
  std::optional<double> step_seconds;       // median
  int64_t parameters = 0;                   // of the model
  std::optional<std::string> model_sha256;  // of model.safetensors; none in a result that does not say
  std::string data, data_fingerprint;       // the text in words, by the names of its files; what tells it from another
  std::set<std::string> versions, processors;  // of its sessions
  std::vector<double> curve_steps, curve;      // held-out ln(PPL)
  TrainingConfig config;                       // without its paths
  std::optional<double> joules;                // of its processors; none where they did not tell

  static FieldTable<PretrainingRecord> Fields();
  static constexpr UnknownKeys kUnknownKeys = UnknownKeys::kPassedOver;
  void Validate();
};

struct FinetuningRecord {
  std::map<std::string, std::map<std::string, double>> scores;  // by task, by measure: "score"
  std::string data_fingerprint;
  std::optional<std::string> model_sha256;  // as above
  std::optional<Json> of_scale;             // what the scale said of it; none if that is not known
  Json config = Json::MakeObject();         // the fields in which it is another than its pretraining, paths aside

  static FieldTable<FinetuningRecord> Fields();
  void Validate();
};

// result.json: every member is known, and every value of a kind that a finished cell can have. FromJson reads it.
struct CellRecord {
  PretrainingRecord pretraining;
  std::map<std::string, FinetuningRecord> finetunings;  // by their tasks: "mnli-m"

  TrainingConfig ConfigOf(const FinetuningRecord& finetuning) const;
  static FieldTable<CellRecord> Fields();
  void Validate();
};

// Read folders that hold finished runs. Error(kData) of the file for what is missing or damaged.
PretrainingRecord ReadPretraining(const std::string& run_folder);
FinetuningRecord ReadFinetuning(const std::string& run_folder, const std::optional<Json>& of_scale,
                                const TrainingConfig& pretraining);

}  // namespace crosstalk
