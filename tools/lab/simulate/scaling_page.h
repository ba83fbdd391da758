// Simulated scaling as a page, and as a picture.
#pragma once

#include <string>
#include <vector>

#include "tools/lab/simulate/recording.h"
#include "tools/lab/simulate/scaling.h"

namespace crosstalk {

std::string ScalingPage(const StepRecording& recording, const std::vector<ScalingCurve>& curves);
// One SVG file of both panels: the speed-up of strong scaling, and below it the efficiency of weak scaling.
std::string ScalingSvg(const StepRecording& recording, const std::vector<ScalingCurve>& curves);

}  // namespace crosstalk
