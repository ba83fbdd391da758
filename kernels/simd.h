// Which SIMD instruction set the kernels run on: chosen once, at run time, by the environment variable CROSSTALK_SIMD
// or for this CPU. It changes no bit: every sum has the order of 64-byte vectors (simd-inl.h), and every target fuses
// multiply-adds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk::kernels {

// The one in use ("AVX3", "AVX2", "NEON", …).
std::string SimdTargetName();

// All that this CPU has and this program was compiled for, best first.
std::vector<std::string> SupportedSimdTargets();

// Runs on `name`, one of SupportedSimdTargets() in any case, from now on; an empty name gives the choice back to the
// CPU. No kernel may run meanwhile. Throws a usage error of the field "simd" for another name.
void RestrictSimdTarget(std::string_view name);

// Before the first kernel: restricts to CROSSTALK_SIMD, if it is set and nobody has restricted the target yet. Throws a
// usage error if it names none. Functions dispatched with CROSSTALK_DISPATCH call it.
void SettleSimdTarget();

}  // namespace crosstalk::kernels

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace crosstalk::kernels {

// Arithmetic that takes numbers below 2^-126 for 0, as the processors' bfloat16 instructions do.

// While one lives, a subnormal result or operand of this thread's vector arithmetic is a zero of its sign.
class FlushSubnormals {
 public:
  FlushSubnormals() : before_(Read()) { Write(before_ | kFlush); }
  ~FlushSubnormals() { Write(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kFlush = 0x8040;  // MXCSR: flush to zero, denormals are zero
  static uint64_t Read() { return _mm_getcsr(); }
  static void Write(uint64_t state) { _mm_setcsr(static_cast<uint32_t>(state)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kFlush = uint64_t{1} << 24;  // FPCR.FZ
  static uint64_t Read() {
    uint64_t state;
    asm volatile("mrs %0, fpcr" : "=r"(state));
    return state;
  }
  static void Write(uint64_t state) { asm volatile("msr fpcr, %0" : : "r"(state)); }
#else
  static constexpr uint64_t kFlush = 0;
  static uint64_t Read() { return 0; }
  static void Write(uint64_t /*state*/) {}
#endif

  uint64_t before_;
};

}  // namespace crosstalk::kernels
