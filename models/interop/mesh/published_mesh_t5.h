// T5 as its authors' framework, Mesh TensorFlow, has it: T5 1.0 and 1.1, and talking heads with every head projection.
#pragma once

#include "crosstalk/models/interop/published_form.h"

namespace crosstalk {

// ReadGin gives its configuration, with feed_forward, dynamic and vocabulary of MeshOptions beside it; most of
// it follows from the tensors' shapes. Not in PublishedForms().
extern const PublishedForm kPublishedMeshT5;

}  // namespace crosstalk
