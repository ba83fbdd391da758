// The frame of what is compiled once for each SIMD target. Highway's foreach_target.h includes such a source again for
// each of them; headers in it (-inl.h) have guards that open once a target. Their functions stand in the target's own
// namespace, crosstalk::kernels::HWY_NAMESPACE:
//
//   CROSSTALK_BEGIN_TARGET
//   template <typename T>
//   void SoftmaxRow(int64_t n, const T* x, T* y) { … }
//   CROSSTALK_END_TARGET
//
// Outside of all namespaces a source says what others call:
//
//   CROSSTALK_DISPATCH(SoftmaxRow)                          SoftmaxRowOnTarget<T>() is SoftmaxRow<T>
//   CROSSTALK_TARGETS(MixForwardOnTarget, MixForward)       MixForwardOnTarget() is the other, a function or a value
//
// of the SIMD target in use, which is settled then. They are called once per call of a kernel, outside its loops. The
// rest of a source is compiled once, under HWY_ONCE. Each target includes this again: hence no #pragma once.
#include "crosstalk/kernels/simd.h"
#include "hwy/highway.h"

#undef CROSSTALK_ONCE
#if HWY_ONCE
#define CROSSTALK_ONCE(...) \
  namespace crosstalk::kernels { \
  __VA_ARGS__ \
  }
#else
#define CROSSTALK_ONCE(...)
#endif

#ifndef CROSSTALK_BEGIN_TARGET
// The pragmas of Highway come last: g++ 14 drops what follows them in a macro.
#define CROSSTALK_BEGIN_TARGET \
  namespace crosstalk::kernels::HWY_NAMESPACE { \
  namespace hn = hwy::HWY_NAMESPACE; \
  HWY_BEFORE_NAMESPACE();
#define CROSSTALK_END_TARGET \
  } \
  HWY_AFTER_NAMESPACE();

// Highway exports functions, not instances of templates: this one returns them.
#define CROSSTALK_TARGETS(Name, ...) \
  namespace crosstalk::kernels::HWY_NAMESPACE { \
  [[maybe_unused]] static auto Name##Here() { return __VA_ARGS__; } \
  } \
  CROSSTALK_ONCE(HWY_EXPORT(Name##Here); decltype(HWY_NAMESPACE::Name##Here()) Name() { \
    SettleSimdTarget(); \
    return HWY_DYNAMIC_DISPATCH(Name##Here)(); \
  })

#define CROSSTALK_DISPATCH(Function) \
  CROSSTALK_TARGETS(Function##InFloat, Function<float>) \
  CROSSTALK_TARGETS(Function##InDouble, Function<double>) \
  CROSSTALK_ONCE(template <typename T> static auto Function##OnTarget() { \
    if constexpr (sizeof(T) == 4) { \
      return Function##InFloat(); \
    } else { \
      return Function##InDouble(); \
    } \
  })

// A template's functions in float and in double.
#define CROSSTALK_INSTANTIATE(Function) \
  template decltype(Function<float>) Function<float>; \
  template decltype(Function<double>) Function<double>;
#endif
