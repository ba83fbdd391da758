#include "crosstalk/runtime/platform.h"

#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "crosstalk/runtime/file_calls.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/text.h"
#include "crosstalk/runtime/version.h"

extern char** environ;

namespace crosstalk {
namespace {

std::string CpuName() {
  // Its size is given as 0, and one model name is as good as another: the first page has it.
  char text[4096];
  const int file = OpenFile("/proc/cpuinfo", O_RDONLY);
  const ssize_t size = file < 0 ? 0 : RetryInterrupted([&] { return read(file, text, sizeof(text)); });
  if (file >= 0) close(file);
  std::string arm = "ARM";  // which has numbers instead: its maker's, then its own
  for (const std::string& line : Split(std::string_view(text, static_cast<size_t>(std::max<ssize_t>(0, size))), '\n')) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name")) return line.substr(colon + 2);
    if (line.starts_with("CPU implementer") || line.starts_with("CPU part")) arm += " " + line.substr(colon + 2);
    if (line.starts_with("CPU part")) return arm;
  }
  return "unknown";
}

std::string OperatingSystem() {
  utsname name;
  if (uname(&name) != 0) return "unknown";
  return StrCat(name.sysname, " ", name.release, " ", name.machine);
}

std::string Compiler() {
#if defined(__clang__)
  return StrCat("clang++ ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#elif defined(__GNUC__)
  return StrCat("g++ ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

bool IsRelevant(std::string_view name) {
  constexpr std::string_view kPrefixes[] = {"OMP_", "OPENBLAS_", "GOTO_", "GOMP_",          "KMP_",
                                            "MKL_", "BLIS_",     "HWY_",  "CROSSTALK_SIMD", "CROSSTALK_PACKAGES"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

std::map<std::string, std::string> RelevantEnvironment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || !IsRelevant(text.substr(0, equals))) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace

#define CROSSTALK_TEXT_OF(number) #number
#define CROSSTALK_TEXT(number) CROSSTALK_TEXT_OF(number)
const char* Version() {
  return CROSSTALK_TEXT(CROSSTALK_VERSION_MAJOR) "." CROSSTALK_TEXT(CROSSTALK_VERSION_MINOR) "." CROSSTALK_TEXT(
      CROSSTALK_VERSION_PATCH);
}

PlatformInfo GetPlatformInfo() {
  PlatformInfo info;
  info.version = Version();
  info.cpu_name = CpuName();
  info.processors = AvailableProcessors();
  info.total_memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  info.operating_system = OperatingSystem();
  info.compiler = Compiler();
  info.c_library = std::string("glibc ") + gnu_get_libc_version();
  info.environment = RelevantEnvironment();
  return info;
}

FieldTable<PlatformInfo> PlatformInfo::Fields() {
  using Info = PlatformInfo;
  const FieldOptions later = {.may_be_missing = true};
  return {{"version", &Info::version},
          {"cpu_name", &Info::cpu_name},
          {"processors", &Info::processors, later},
          {"total_memory_bytes", &Info::total_memory_bytes, later},
          {"operating_system", &Info::operating_system, later},
          {"compiler", &Info::compiler, later},
          {"c_library", &Info::c_library, later},
          {"environment", &Info::environment, later}};
}

int64_t PeakResidentBytes() {
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace crosstalk
