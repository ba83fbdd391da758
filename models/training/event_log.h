// TensorBoard's event files beside metrics.jsonl: the numbers of its lines as scalars, and pictures. A file is a row of
// records, each a protocol buffer `Event` between two masked CRC-32C; what is written of that format, and read back
// where a run goes on, is here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/models/inspection/attention_maps.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/json.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// A new file events.out.tfevents.SECONDS.crosstalk in the folder of a run, open at its end.
class EventLog {
 public:
  // Keeps what precedes the resumption at `step` in the files that earlier sessions left in the folder, as in
  // metrics.jsonl (MetricsLog); a cut off or damaged record is removed, with everything after it.
  EventLog(const std::string& folder, int64_t step, MetricsLog::Evaluated evaluated);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // The numbers of a line of metrics.jsonl, by tags "train/loss", "eval/ln_ppl", "eval/constant_guess/…".
  void AppendScalars(const Json& line);
  // Pictures at an evaluation.
  struct Picture {
    std::string tag;  // "P_l/encoder.block_0.self_attention"
    HeatImage image;
  };
  void AppendPictures(int64_t step, const std::vector<Picture>& pictures);

 private:
  void AppendEvent(const std::string& event);

  std::string path_;
  int descriptor_;
};

}  // namespace crosstalk
#pragma GCC visibility pop
