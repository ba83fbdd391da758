// ALBERT as its publishers' framework has it.
#pragma once

#include "crosstalk/models/interop/published_form.h"

namespace crosstalk {

extern const PublishedForm kPublishedAlbert;

}  // namespace crosstalk
