// T5 as its publishers' framework has it.
#pragma once

#include "crosstalk/models/interop/published_form.h"

namespace crosstalk {

extern const PublishedForm kPublishedT5;

}  // namespace crosstalk
