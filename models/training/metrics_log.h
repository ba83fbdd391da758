// metrics.jsonl: one object a line, {"event": "train" or "eval", "step": …} and what was measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// The file, open at its end.
class MetricsLog {
 public:
  // Keeps the lines of an existing file that precede the resumption at `step`: those of steps up to it, but of `step`
  // itself no evaluation unless `evaluated` (which will be made again). A line that was cut off goes too. A file with a
  // damaged line is kept as it is beside the new one, as PATH.damaged-1, -2, ….
  enum class Evaluated { kNo, kYes };
  MetricsLog(const std::string& path, int64_t step, Evaluated evaluated);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  // One line, handed to the system before it returns. Error(kResource) if the disk is full.
  void Append(const Json& line);

  // The fault of the existing file, with the line's number, and where it is kept; empty: none.
  const std::string& damage() const { return damage_; }

 private:
  std::string path_;
  std::string damage_;
  int descriptor_;
};

// The lines of a file, whole ones only. Error(kData) with the line's number for one that is not JSON.
std::vector<Json> ReadMetrics(const std::string& path);

}  // namespace crosstalk
