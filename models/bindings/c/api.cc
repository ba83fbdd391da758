// The table of functions for those who load the library at run time.
#include "crosstalk/models/bindings/c/crosstalk.h"

extern "C" const ct_api* ct_get_api(uint32_t version) {
  static constexpr ct_api kApi = {
      CT_API_VERSION,        ct_version,          ct_last_error,     ct_last_status,
      ct_last_error_field,   ct_set_threads,      ct_free,           ct_describe,
      ct_parameters,         ct_tensor_create,    ct_tensor_wrap,    ct_tensor_array,
      ct_tensor_from_dlpack, ct_tensor_to_dlpack, ct_tensors_create, ct_tensors_add,
      ct_tensors_size,       ct_tensors_at,       ct_tensors_find,   ct_attention_create,
      ct_attention_forward,  ct_attention_begin,  ct_attention_step, ct_backward,
      ct_model_open,         ct_model_forward,    ct_model_generate, ct_model_search,
      ct_model_encode,       ct_model_decode,     ct_training_open,  ct_training_step,
      ct_training_metrics,   ct_training_save,    ct_training_model,
  };
  return version >= 1 && version <= CT_API_VERSION ? &kApi : nullptr;
}
