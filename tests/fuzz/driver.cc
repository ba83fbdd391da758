// The entry of libFuzzer for one target: CROSSTALK_FUZZ_TARGET is the name of its function. What leaves the target as
// an exception ends the process, which is how libFuzzer learns of a finding.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "crosstalk/runtime/parallel.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  crosstalk::SetNumThreads(1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  crosstalk::fuzz::CROSSTALK_FUZZ_TARGET(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
