#include "crosstalk/kernels/gemm/openblas.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdlib>
#include <optional>
#include <semaphore>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk::kernels {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";
constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;  // CBLAS's numbers

// The name of the best kernel set for this CPU, by what it can execute; null where OpenBLAS's own choice is as good.
const char* BestCore() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

// Names of kernel sets that use all that the best one does.
bool IsAsGood(const std::string& core, const std::string& best) {
  if (core == best) return true;
  if (best == "SkylakeX") return core == "Cooperlake" || core == "Sapphirerapids";
  return core == "Zen" || core == "SkylakeX" || core == "Cooperlake" || core == "Sapphirerapids";
}

template <typename Function>
bool Find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

// Sets an environment variable for as long as it lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~ScopedVariable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

OpenBlas Unavailable(const std::string& reason) {
  OpenBlas blas;
  blas.unavailable = blas.warning = reason;
  blas.core = "none";
  return blas;
}

// What the library takes, one of its buffers, and what else it may ask for.
constexpr size_t kLibraryBytes = size_t{64} << 20, kBufferBytes = size_t{128} << 20, kBesideBytes = size_t{16} << 20;

bool IsRoom(size_t bytes) {
  void* const room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  munmap(room, bytes);
  return true;
}

// Has OpenBLAS make its buffers, which it keeps: as many as there are threads, while as much room is left for the rest
// of the program. Returns how many.
int MakeBuffers(void* library, const OpenBlas& blas) {
  void* (*take)(int);
  void (*give_back)(void*);
  if (!Find(library, "blas_memory_alloc", take) || !Find(library, "blas_memory_free", give_back)) {
    if (blas.dgetrf == nullptr || !IsRoom(kBufferBytes + kBesideBytes)) return 0;
    const int one = 1;
    double matrix = 1;
    int pivot = 0, info = 0;
    blas.dgetrf(&one, &one, &matrix, &one, &pivot, &info);  // takes a buffer and gives it back
    return 1;
  }
  std::vector<void*> buffers;
  while (std::ssize(buffers) < NumThreads() && IsRoom((buffers.size() + 1) * kBufferBytes + kBesideBytes)) {
    buffers.push_back(take(0));
  }
  for (void* const buffer : buffers) give_back(buffer);
  return static_cast<int>(buffers.size());
}

OpenBlas Load() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  const bool was_loaded = library != nullptr;
  constexpr const char* kNoRoom = "OpenBLAS needs some 200 MiB of address space, and there is less; see ulimit -v";
  if (!was_loaded && !IsRoom(kLibraryBytes + kBufferBytes + kBesideBytes)) return Unavailable(kNoRoom);
  const char* asked = std::getenv(kCoreVariable);
  const bool user_chose = asked != nullptr && *asked != '\0';
  const char* best = BestCore();
  if (!was_loaded) {
    std::optional<ScopedVariable> core;
    if (best != nullptr && !user_chose) core.emplace(kCoreVariable, best);
    const ScopedVariable threads("OPENBLAS_NUM_THREADS", "1");  // else it starts one per processor, to sleep
    library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return Unavailable(StrCat("cannot load ", kLibrary, " (", dlerror(), "): install Debian's libopenblas0"));
  }
  OpenBlas blas;
  const char* (*core_name)();
  void (*set_threads)(int);
  int (*get_threads)();
  if (!Find(library, "cblas_sgemm", blas.sgemm) || !Find(library, "cblas_dgemm", blas.dgemm) ||
      !Find(library, "openblas_get_corename", core_name) || !Find(library, "openblas_set_num_threads", set_threads) ||
      !Find(library, "openblas_get_num_threads", get_threads)) {
    return Unavailable(StrCat(kLibrary, " lacks functions of OpenBLAS: is it another BLAS?"));
  }
  Find(library, "dgetrf_", blas.dgetrf);
  Find(library, "dgeev_", blas.dgeev);
  Find(library, "dgesvd_", blas.dgesvd);
  blas.core = core_name();
  set_threads(1);
  if (get_threads() != 1) {
    return Unavailable("OpenBLAS does not let itself be set to one thread; its bits would depend on threads");
  }
  blas.buffers = MakeBuffers(library, blas);
  if (blas.buffers == 0) return Unavailable(kNoRoom);
  if (best != nullptr && !IsAsGood(blas.core, best)) {
    blas.warning = StrCat("OpenBLAS runs with its ", blas.core, " kernels, but this CPU can run ", best, ": ",
                          user_chose   ? "unset OPENBLAS_CORETYPE"
                          : was_loaded ? "the host program loaded OpenBLAS first; set OPENBLAS_CORETYPE for it"
                                       : "this OpenBLAS was built without them");
  }
  return blas;
}

template <typename T, typename Function>
void Call(Function OpenBlas::*function, const GemmArguments<T>& g) {
  const OpenBlas& blas = GetOpenBlas();
  if (!blas.unavailable.empty()) Fail(ErrorKind::kFailure, blas.unavailable);
  const OpenBlasCall call;
  const auto number = [](Transpose transpose) { return transpose == Transpose::kYes ? kTranspose : kNoTranspose; };
  (blas.*function)(kRowMajor, number(g.transpose_a), number(g.transpose_b), static_cast<int>(g.m),
                   static_cast<int>(g.n), static_cast<int>(g.k), g.alpha, g.a.data(), static_cast<int>(g.a.stride),
                   g.b.data(), static_cast<int>(g.b.stride), g.beta, g.c, static_cast<int>(g.ldc));
}

std::counting_semaphore<>& FreeBuffers() {
  static auto* const free = new std::counting_semaphore<>(GetOpenBlas().buffers);
  return *free;
}

}  // namespace

OpenBlasCall::OpenBlasCall() { FreeBuffers().acquire(); }
OpenBlasCall::~OpenBlasCall() { FreeBuffers().release(); }

void OpenBlasGemm(const GemmArguments<float>& g) { Call(&OpenBlas::sgemm, g); }
void OpenBlasGemm(const GemmArguments<double>& g) { Call(&OpenBlas::dgemm, g); }

const OpenBlas& GetOpenBlas() {
  static const OpenBlas* blas = new OpenBlas(Load());  // never unloaded: threads may be inside at exit
  return *blas;
}

}  // namespace crosstalk::kernels
