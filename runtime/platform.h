// The program's platform and build, as plain values for run.json and reports. The SIMD target and the BLAS
// kernels are the business of kernels/.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "crosstalk/runtime/record.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The version of the project, "major.minor.patch".
const char* Version();

struct PlatformInfo {
  std::string version;             // Version()
  std::string cpu_name;            // "AMD EPYC 9B45", "ARM 0x41 0xd40", "unknown" where nothing tells
  int processors = 0;              // that this process may use: AvailableProcessors()
  int64_t total_memory_bytes = 0;  // physical
  std::string operating_system;    // "Linux 6.1.0-18-amd64 x86_64"
  std::string compiler;            // "g++ 12.2.0"
  std::string c_library;           // "glibc 2.36"
  // The variables that can change speed or bits: OMP_*, OPENBLAS_*, GOTO_*, GOMP_*, KMP_*, MKL_*, BLIS_*, HWY_*,
  // CROSSTALK_SIMD; and CROSSTALK_PACKAGES, in which tools/packaging/Containerfile says of what day the packages are.
  std::map<std::string, std::string> environment;

  static FieldTable<PlatformInfo> Fields();
  static constexpr UnknownKeys kUnknownKeys = UnknownKeys::kPassedOver;
};

PlatformInfo GetPlatformInfo();

// The most physical memory that this process has held since it began.
int64_t PeakResidentBytes();

}  // namespace crosstalk
#pragma GCC visibility pop
