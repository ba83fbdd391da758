#include "tools/report/style_sheets.h"

namespace crosstalk {

const char kLightStyle[] =
#include "embedded/tools/report/light.css.inc"
    ;
const char kDarkStyle[] =
#include "embedded/tools/report/dark.css.inc"
    ;
const char kChartStyle[] =
#include "embedded/tools/report/chart.css.inc"
    ;

}  // namespace crosstalk
