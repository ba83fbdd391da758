#include "crosstalk/models/interop/published_form.h"

#include "crosstalk/models/interop/mesh/published_mesh_t5.h"
#include "crosstalk/models/interop/published_albert.h"
#include "crosstalk/models/interop/published_bert.h"
#include "crosstalk/models/interop/published_t5.h"

namespace crosstalk {

const std::vector<const PublishedForm*>& PublishedForms() {
  static const std::vector<const PublishedForm*> forms = {&kPublishedT5, &kPublishedBert, &kPublishedAlbert};
  return forms;
}

const PublishedForm* FormOf(std::string_view model, PublishedFormat format) {
  if (format == PublishedFormat::kMesh) return model == kPublishedMeshT5.model ? &kPublishedMeshT5 : nullptr;
  for (const PublishedForm* form : PublishedForms()) {
    if (model == form->model) return form;
  }
  return nullptr;
}

}  // namespace crosstalk
