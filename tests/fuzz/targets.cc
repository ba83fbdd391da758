#include "tests/fuzz/fuzz.h"

namespace crosstalk::fuzz {

std::span<const Target> Targets() {
  static constexpr Target kTargets[] = {
      {"c_interface", FuzzCInterface},
      {"command_line", FuzzCommandLine},
      {"config", FuzzConfig},
      {"corpus", FuzzCorpus},
      {"einsum", FuzzEinsum},
      {"json", FuzzJson},
      {"numpy", FuzzNumpy},
      {"published", FuzzPublished},
      {"run_folder", FuzzRunFolder},
      {"safetensors", FuzzSafetensors},
      {"tasks", FuzzTasks},
      {"tensor_bundle", FuzzTensorBundle},
      {"tokenizer", FuzzTokenizer},
      {"tokenizer_folder", FuzzTokenizerFolder},
  };
  return kTargets;
}

}  // namespace crosstalk::fuzz
