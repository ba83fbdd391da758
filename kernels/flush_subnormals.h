// Arithmetic that takes numbers below 2^-126 for 0, as the processors' bfloat16 instructions do.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace crosstalk::kernels {

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
