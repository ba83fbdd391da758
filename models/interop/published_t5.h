// T5 as its publishers' framework has it.
#pragma once

#include "crosstalk/models/interop/published_form.h"

namespace crosstalk {

extern const PublishedForm kPublishedT5;

// PublishedForm::describe of every form of a T5.
void DescribeT5(const ModelConfig& described, TrainingConfig& config);

}  // namespace crosstalk
