// The curves of runs as charts, one run or several on each other.
#pragma once

#include <string>
#include <vector>

#include "tools/page/chart.h"
#include "tools/page/run_record.h"

namespace crosstalk {

// How a measure's chart shows it: its unit, its scale.
LineChartOptions ChartOptionsFor(const std::string& measure, const std::string& title);

// ln(PPL) and every other held-out measure, with the training's where it has it; loss, learning rate, gradient norm and
// tokens per second. Empty where there is no line of any.
std::string RunCharts(const std::vector<RunRecord>& runs);

}  // namespace crosstalk
