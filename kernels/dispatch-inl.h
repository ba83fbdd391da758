// Run-time dispatch of kernels that are templates on float and double. A kernel file defines its functions in
// crosstalk::kernels::HWY_NAMESPACE and then, outside of all namespaces, says
//
//   CROSSTALK_DISPATCH(SoftmaxRow)
//
// In the part under HWY_ONCE, SoftmaxRowOnTarget<T>() is then a pointer to SoftmaxRow<T> of the SIMD target in use: to
// be taken once per call of the kernel, outside its loops. Included after hwy/foreach_target.h; hence no #pragma once.
#if defined(CROSSTALK_KERNELS_DISPATCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_KERNELS_DISPATCH_INL_H_
#undef CROSSTALK_KERNELS_DISPATCH_INL_H_
#else
#define CROSSTALK_KERNELS_DISPATCH_INL_H_
#endif

#include "crosstalk/kernels/simd.h"
#include "hwy/highway.h"

// Highway exports functions, not templates: these two return the pointers.
#undef CROSSTALK_DISPATCH_POINTERS
#define CROSSTALK_DISPATCH_POINTERS(Function) \
  namespace crosstalk::kernels::HWY_NAMESPACE { \
  [[maybe_unused]] static auto Function##Float() { return &Function<float>; } \
  [[maybe_unused]] static auto Function##Double() { return &Function<double>; } \
  }

#undef CROSSTALK_DISPATCH
#if HWY_ONCE
#define CROSSTALK_DISPATCH(Function) \
  CROSSTALK_DISPATCH_POINTERS(Function) \
  namespace crosstalk::kernels { \
  namespace { \
  HWY_EXPORT(Function##Float); \
  HWY_EXPORT(Function##Double); \
  template <typename T> \
  auto Function##OnTarget() { \
    SettleSimdTarget(); \
    if constexpr (sizeof(T) == 4) { \
      return HWY_DYNAMIC_DISPATCH(Function##Float)(); \
    } else { \
      return HWY_DYNAMIC_DISPATCH(Function##Double)(); \
    } \
  } \
  } \
  }
#else
#define CROSSTALK_DISPATCH(Function) CROSSTALK_DISPATCH_POINTERS(Function)
#endif

#endif
