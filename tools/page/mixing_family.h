// What the section on the mixing of heads has of differential and of Multi-Token Attention: λ as a table, the filters
// as pictures.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/runtime/dtype.h"

namespace crosstalk {

// One layer, as it began (null: not known) and as it is.
struct LayerPair {
  const LayerMixing* before;
  const LayerMixing* now;
};

// HTML, or "" where no layer has any.
std::string DifferentialTable(const std::vector<LayerPair>& pairs, Precision measured_in);
// The filters as they are: at most about 0.5 MB of pictures, of the first heads where there are more.
std::string FilterPictures(const std::vector<LayerPair>& pairs);

}  // namespace crosstalk
