#pragma once
#include "crosstalk/models/t5/config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/feed_forward.h"
#include "crosstalk/nn/optim/schedule.h"
#include "crosstalk/runtime/enum_names.h"
namespace crosstalk {
template <>
struct EnumNames<MixingInit> {
  static constexpr EnumName<MixingInit> kTable[] = {{MixingInit::kRandom, "random"},
                                                    {MixingInit::kIdentity, "identity"}};
};
template <>
struct EnumNames<KeyValueProjection> {
  static constexpr EnumName<KeyValueProjection> kTable[] = {{KeyValueProjection::kSeparate, "separate"},
                                                            {KeyValueProjection::kTied, "tied"}};
};
template <>
struct EnumNames<AttentionImplementation> {
  static constexpr EnumName<AttentionImplementation> kTable[] = {{AttentionImplementation::kFused, "fused"},
                                                                 {AttentionImplementation::kComposed, "composed"}};
};
template <>
struct EnumNames<FeedForwardKind> {
  static constexpr EnumName<FeedForwardKind> kTable[] = {{FeedForwardKind::kRelu, "relu"},
                                                         {FeedForwardKind::kGatedGelu, "gated-gelu"}};
};
template <>
struct EnumNames<ClassifierKind> {
  static constexpr EnumName<ClassifierKind> kTable[] = {{ClassifierKind::kTied, "tied"},
                                                        {ClassifierKind::kUntied, "untied"}};
};
template <>
struct EnumNames<ScheduleKind> {
  static constexpr EnumName<ScheduleKind> kTable[] = {{ScheduleKind::kInverseSquareRoot, "inverse-square-root"},
                                                      {ScheduleKind::kLinear, "linear"},
                                                      {ScheduleKind::kConstant, "constant"}};
};
}  // namespace crosstalk
