#include "tools/page/style_sheets.h"

namespace crosstalk {

const char kLightStyle[] =
#include "embedded/tools/page/light.css.inc"
    ;
const char kDarkStyle[] =
#include "embedded/tools/page/dark.css.inc"
    ;
const char kChartStyle[] =
#include "embedded/tools/page/chart.css.inc"
    ;

}  // namespace crosstalk
