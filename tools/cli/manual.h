// Pages of the manual, crosstalk(1) and crosstalk-train(1), in the language of man: from the tables of options, as
// `crosstalk --help` is.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/command.h"

namespace crosstalk {

std::string ManualOverview(const std::vector<Command>& commands);
std::string ManualPage(const Command& command);

}  // namespace crosstalk
