// The style sheets that pages and files of drawings share, as text.
#pragma once

namespace crosstalk {

extern const char kLightStyle[], kDarkStyle[], kChartStyle[];

}  // namespace crosstalk
