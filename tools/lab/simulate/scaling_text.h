// Simulated scaling as texts: for a terminal, and the tables that a page shows.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/cli/text_table.h"
#include "tools/lab/simulate/recording.h"
#include "tools/lab/simulate/scaling.h"

namespace crosstalk {

// The note above every figure.
std::string SimulatedNote();
// The origin of the recording: name and value.
std::vector<std::pair<std::string, std::string>> RecordingFacts(const StepRecording& recording);
// "Strong scaling on 10GbE (…), simulated".
std::string TitleOf(const ScalingCurve& curve);
// A row for each number of ranks.
TextTable TableOf(const ScalingCurve& curve);
// The legend of its columns.
std::string ColumnsNote();

std::string ScalingText(const StepRecording& recording, const std::vector<ScalingCurve>& curves);

}  // namespace crosstalk
