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

namespace crosstalk {

struct PretrainingRecord {
  TrainingConfig config;               // without its paths
  std::string data, data_fingerprint;  // the text in words, by the names of its files; what tells it from another
  std::string simd_bits;
  std::set<std::string> versions, processors;  // of its sessions
  int64_t parameters = 0;                      // of the model
  std::string model_sha256;                    // of model.safetensors; empty in a result that does not say
  std::map<std::string, double> values;        // at the last step, by measure: "ln_ppl"
  std::vector<double> curve_steps, curve;      // held-out ln(PPL)
  std::optional<double> step_seconds;          // median
  std::optional<double> joules;                // of its processors; none where they did not tell
};

struct FinetuningRecord {
  TrainingConfig config;         // without its paths
  std::optional<Json> of_scale;  // what the scale said of it; none where that is not known
  std::string data_fingerprint;
  std::string model_sha256;  // of model.safetensors; empty in a result that does not say
  std::map<std::string, std::map<std::string, double>> scores;  // by task, by measure: "score"
};

struct CellRecord {
  PretrainingRecord pretraining;
  std::map<std::string, FinetuningRecord> finetunings;  // by their tasks: "mnli-m"
};

// Of folders that hold finished runs. Error(kData) of the file for what is missing or damaged.
PretrainingRecord ReadPretraining(const std::string& run_folder);
FinetuningRecord ReadFinetuning(const std::string& run_folder, const std::optional<Json>& of_scale);

// An array of them.
Json Strings(const std::set<std::string>& texts);

// result.json.
Json ToJson(const CellRecord& record);
// Error(kData) with `source` and the key for what is no record of a cell.
CellRecord CellRecordFromJson(const Json& json, const std::string& source);

}  // namespace crosstalk
