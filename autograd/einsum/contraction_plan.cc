#include <algorithm>

#include "crosstalk/autograd/einsum/contraction.h"
#include "crosstalk/runtime/memo.h"

namespace crosstalk::math {
namespace {

using Kind = Axis::Kind;
using StrideOf = int64_t Axis::*;

// Estimates, in nanoseconds on one core, that only rank plans. A product of small dimensions runs far below its peak:
// each dimension of kHalfSpeedSize halves the speed.
constexpr double kNsPerProduct = 150;
constexpr double kFloatFlopsPerNs = 110;
constexpr double kHalfSpeedSize = 14;
constexpr double kLaneFlopsPerNs = 45;
constexpr double kNsPerCopiedFloat = 1.0;
constexpr double kNsPerTransposedFloat = 3.0;  // a copy in which another axis becomes the contiguous one
constexpr double kNsPerSummedFloat = 0.4;
constexpr double kNsPerMultipliedFloat = 1.5;

double Efficiency(int64_t size) { return static_cast<double>(size) / (static_cast<double>(size) + kHalfSpeedSize); }

// All runs of `members` that are one dimension of one stride in each tensor of `fixed`. With nothing fixed the layout
// is ours to choose, and the one candidate is all of them.
std::vector<std::vector<int>> Groups(const std::vector<Axis>& axes, std::vector<int> members,
                                     const std::vector<StrideOf>& fixed) {
  if (members.empty() || fixed.empty()) return {members};
  std::stable_sort(members.begin(), members.end(), [&](int i, int j) {
    return axes[static_cast<size_t>(i)].*fixed[0] > axes[static_cast<size_t>(j)].*fixed[0];
  });
  std::vector<std::vector<int>> groups;
  for (size_t begin = 0; begin < members.size(); ++begin) {
    std::vector<int> group;
    for (size_t end = begin; end < members.size(); ++end) {
      const Axis& next = axes[static_cast<size_t>(members[end])];
      if (!group.empty()) {
        const Axis& last = axes[static_cast<size_t>(group.back())];
        const bool merges = std::all_of(fixed.begin(), fixed.end(),
                                        [&](StrideOf stride) { return last.*stride == next.*stride * next.size; });
        if (!merges) break;
      }
      group.push_back(members[end]);
      groups.push_back(group);
    }
  }
  return groups;
}

bool Contains(const std::vector<int>& group, int i) { return std::find(group.begin(), group.end(), i) != group.end(); }

bool Runs(const std::vector<Axis>& axes, const ContractPlan& plan) {
  const int64_t m = GroupSize(axes, plan.rows);
  const int64_t n = GroupSize(axes, plan.columns);
  const int64_t k = GroupSize(axes, plan.inner);
  if (!plan.copy_a &&
      !MakeGemmView(m, k, GroupStride(axes, plan.rows, &Axis::a), GroupStride(axes, plan.inner, &Axis::a)).valid) {
    return false;
  }
  if (!plan.copy_b &&
      !MakeGemmView(k, n, GroupStride(axes, plan.inner, &Axis::b), GroupStride(axes, plan.columns, &Axis::b)).valid) {
    return false;
  }
  return plan.copy_c ||
         MakeGemmView(m, n, GroupStride(axes, plan.rows, &Axis::c), GroupStride(axes, plan.columns, &Axis::c)).valid;
}

struct Sizes {
  double a = 1, b = 1, c = 1, all = 1, inner = 1;
};
Sizes CountElements(const std::vector<Axis>& axes) {
  Sizes sizes;
  for (const Axis& axis : axes) {
    const double size = static_cast<double>(axis.size);
    if (axis.kind != Kind::kColumn) sizes.a *= size;
    if (axis.kind != Kind::kRow) sizes.b *= size;
    if (axis.kind != Kind::kInner) sizes.c *= size;
    if (axis.kind == Kind::kInner) sizes.inner *= size;
    sizes.all *= size;
  }
  return sizes;
}

// The axis that is contiguous in the tensor of `stride`, -1 if none.
int ContiguousAxis(const std::vector<Axis>& axes, Kind absent, StrideOf stride) {
  for (int i = 0; i < static_cast<int>(axes.size()); ++i) {
    const Axis& axis = axes[static_cast<size_t>(i)];
    if (axis.kind != absent && axis.*stride == 1) return i;
  }
  return -1;
}

double CopyTime(const std::vector<Axis>& axes, const ContractPlan& plan, const Sizes& sizes, double float_ratio) {
  const auto time = [&](bool copied, Kind absent, StrideOf stride, const std::vector<int>& first,
                        const std::vector<int>& second, double count) {
    if (!copied) return 0.0;
    const int contiguous = ContiguousAxis(axes, absent, stride);
    const bool stays = plan.lane >= 0
                           ? contiguous == plan.lane
                           : contiguous >= 0 && (Contains(first, contiguous) || Contains(second, contiguous));
    return count * float_ratio * (stays ? kNsPerCopiedFloat : kNsPerTransposedFloat);
  };
  return time(plan.copy_a, Kind::kColumn, &Axis::a, plan.rows, plan.inner, sizes.a) +
         time(plan.copy_b, Kind::kRow, &Axis::b, plan.inner, plan.columns, sizes.b) +
         time(plan.copy_c, Kind::kInner, &Axis::c, plan.rows, plan.columns, sizes.c);
}

double Estimate(const std::vector<Axis>& axes, const ContractPlan& plan, const Sizes& sizes, double float_ratio) {
  const int64_t m = GroupSize(axes, plan.rows);
  const int64_t n = GroupSize(axes, plan.columns);
  const int64_t k = GroupSize(axes, plan.inner);
  const double per_product = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const double products = sizes.all / per_product;
  const double partial_sums = sizes.inner / static_cast<double>(k);
  double time = products * kNsPerProduct +
                2 * sizes.all * float_ratio / (kFloatFlopsPerNs * Efficiency(m) * Efficiency(n) * Efficiency(k));
  if (partial_sums > 1) time += partial_sums * sizes.c * kNsPerSummedFloat * float_ratio;
  return time + CopyTime(axes, plan, sizes, float_ratio);
}

double EstimateLanes(const std::vector<Axis>& axes, const ContractPlan& plan, const Sizes& sizes, double float_ratio) {
  const double per_lane = static_cast<double>(GroupSize(axes, plan.rows)) *
                          static_cast<double>(GroupSize(axes, plan.columns)) *
                          static_cast<double>(GroupSize(axes, plan.inner));
  const double lanes = static_cast<double>(axes[static_cast<size_t>(plan.lane)].size);
  // Vectors of up to 16 lanes; the start of a product costs as much as some 16 lanes of it.
  const double vectors = sizes.all / (per_lane * lanes) * (lanes + 16);
  return sizes.all / (per_lane * lanes) * kNsPerProduct + 2 * vectors * per_lane * float_ratio / kLaneFlopsPerNs +
         CopyTime(axes, plan, sizes, float_ratio);
}

// Lays out the axes of `order` (outermost first) contiguously in the tensor whose strides are `stride`.
int64_t LayOut(std::vector<Axis>& axes, const std::vector<int>& order, StrideOf stride) {
  int64_t next = 1;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    axes[static_cast<size_t>(*i)].*stride = next;
    next *= axes[static_cast<size_t>(*i)].size;
  }
  return next;
}

// Looped axes, then the two groups, of which the one that is contiguous in `stride` already stays innermost; a lane
// after them all.
std::vector<int> PackedOrder(const std::vector<Axis>& axes, Kind absent, const std::vector<int>& first,
                             const std::vector<int>& second, int lane, StrideOf stride) {
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(axes.size()); ++i) {
    if (axes[static_cast<size_t>(i)].kind == absent || Contains(first, i) || Contains(second, i) || i == lane) continue;
    order.push_back(i);
  }
  const bool first_is_contiguous =
      std::any_of(first.begin(), first.end(), [&](int i) { return axes[static_cast<size_t>(i)].*stride == 1; });
  const std::vector<int>& outer = first_is_contiguous ? second : first;
  const std::vector<int>& inner = first_is_contiguous ? first : second;
  order.insert(order.end(), outer.begin(), outer.end());
  order.insert(order.end(), inner.begin(), inner.end());
  if (lane >= 0) order.push_back(lane);
  return order;
}

}  // namespace

int64_t GroupSize(const std::vector<Axis>& axes, const std::vector<int>& group) {
  int64_t size = 1;
  for (const int i : group) size *= axes[static_cast<size_t>(i)].size;
  return size;
}

int64_t GroupStride(const std::vector<Axis>& axes, const std::vector<int>& group, StrideOf stride) {
  return group.empty() ? 0 : axes[static_cast<size_t>(group.back())].*stride;
}

GemmView MakeGemmView(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  using kernels::Transpose;
  if (rows == 1 && cols == 1) return {true, Transpose::kNo, 1};
  if (rows == 1) {
    if (col_stride == 1) return {true, Transpose::kNo, cols};
    return {col_stride >= 1, Transpose::kYes, col_stride};
  }
  if (cols == 1) {
    if (row_stride == 1) return {true, Transpose::kYes, rows};
    return {row_stride >= 1, Transpose::kNo, row_stride};
  }
  if (col_stride == 1 && row_stride >= cols) return {true, Transpose::kNo, row_stride};
  if (row_stride == 1 && col_stride >= rows) return {true, Transpose::kYes, col_stride};
  return {};
}

namespace {

// The best plan so far, and what all candidates are made of.
struct Search {
  const std::vector<Axis>& axes;
  Sizes sizes;
  double float_ratio;
  SumOrder order;
  std::vector<int> rows, columns, inner, batch;
  ContractPlan best;
  bool found = false;

  void Offer(const ContractPlan& plan) {
    if (!found || plan.nanoseconds < best.nanoseconds) best = plan;
    found = true;
  }
};

// Every way to cut the products with the given copies.
void SearchGemm(Search& search, ContractPlan plan) {
  const std::vector<Axis>& axes = search.axes;
  const auto fixed = [](bool copy_x, StrideOf x, bool copy_y, StrideOf y) {
    std::vector<StrideOf> strides;
    if (!copy_x) strides.push_back(x);
    if (!copy_y) strides.push_back(y);
    return strides;
  };
  const auto row_groups = Groups(axes, search.rows, fixed(plan.copy_a, &Axis::a, plan.copy_c, &Axis::c));
  const auto column_groups = Groups(axes, search.columns, fixed(plan.copy_b, &Axis::b, plan.copy_c, &Axis::c));
  const auto inner_groups = Groups(axes, search.inner, fixed(plan.copy_a, &Axis::a, plan.copy_b, &Axis::b));
  for (const std::vector<int>& row_group : row_groups) {
    for (const std::vector<int>& column_group : column_groups) {
      for (const std::vector<int>& inner_group : inner_groups) {
        const bool batch_invariant = search.order == SumOrder::kBatchInvariant;
        if (batch_invariant && inner_group != search.inner) continue;
        plan.rows = row_group;
        plan.columns = column_group;
        plan.inner = inner_group;
        plan.lane = -1;
        plan.method = ContractPlan::Method::kGemm;
        if (Runs(axes, plan)) {
          plan.nanoseconds = Estimate(axes, plan, search.sizes, search.float_ratio);
          search.Offer(plan);
        }
        if (batch_invariant || inner_group.size() != search.inner.size()) continue;
        plan.method = ContractPlan::Method::kInterleaved;
        for (const int lane : search.batch) {
          const Axis& axis = axes[static_cast<size_t>(lane)];
          const bool contiguous =
              (plan.copy_a || axis.a == 1) && (plan.copy_b || axis.b == 1) && (plan.copy_c || axis.c == 1);
          if (!contiguous) continue;
          plan.lane = lane;
          plan.nanoseconds = EstimateLanes(axes, plan, search.sizes, search.float_ratio);
          search.Offer(plan);
        }
      }
    }
  }
}

ContractPlan BestPlan(const std::vector<Axis>& axes, int element_size, SumOrder order) {
  Search search{axes, CountElements(axes), element_size / 4.0, order, {}, {}, {}, {}, {}};
  for (int i = 0; i < static_cast<int>(axes.size()); ++i) {
    switch (axes[static_cast<size_t>(i)].kind) {
      case Kind::kRow:
        search.rows.push_back(i);
        break;
      case Kind::kColumn:
        search.columns.push_back(i);
        break;
      case Kind::kInner:
        search.inner.push_back(i);
        break;
      case Kind::kBatch:
        search.batch.push_back(i);
        break;
    }
  }
  // Shape holds 8 dimensions: an elementwise product over more axes must not be chosen.
  if (axes.size() <= 8 && (order == SumOrder::kFastest || search.inner.empty())) {
    ContractPlan plan;
    plan.method = ContractPlan::Method::kMultiplyAndSum;
    plan.nanoseconds = search.sizes.all * kNsPerMultipliedFloat * search.float_ratio;
    search.Offer(plan);
  }
  if (search.inner.empty()) return search.best;
  for (int copies = 0; copies < 8; ++copies) {
    ContractPlan plan;
    plan.copy_a = (copies & 1) != 0;
    plan.copy_b = (copies & 2) != 0;
    plan.copy_c = (copies & 4) != 0;
    SearchGemm(search, plan);
  }
  return search.best;
}

// The axes with their strides after the copies of `plan`.
std::vector<Axis> EffectiveAxes(const std::vector<Axis>& axes, const ContractPlan& plan) {
  std::vector<Axis> effective = axes;
  if (plan.copy_a)
    LayOut(effective, PackedOrder(axes, Kind::kColumn, plan.rows, plan.inner, plan.lane, &Axis::a), &Axis::a);
  if (plan.copy_b)
    LayOut(effective, PackedOrder(axes, Kind::kRow, plan.inner, plan.columns, plan.lane, &Axis::b), &Axis::b);
  if (plan.copy_c)
    LayOut(effective, PackedOrder(axes, Kind::kInner, plan.rows, plan.columns, plan.lane, &Axis::c), &Axis::c);
  int64_t slice = 1;
  for (const Axis& axis : axes) slice *= axis.kind == Kind::kInner ? 1 : axis.size;
  for (int i = static_cast<int>(axes.size()) - 1; i >= 0; --i) {
    Axis& axis = effective[static_cast<size_t>(i)];
    if (axis.kind != Kind::kInner || Contains(plan.inner, i)) continue;
    axis.c = slice;
    slice *= axis.size;
  }
  return effective;
}

std::vector<int> Looped(const std::vector<Axis>& axes, const ContractPlan& plan) {
  std::vector<int> looped;
  for (int i = 0; i < static_cast<int>(axes.size()); ++i) {
    if (!Contains(plan.rows, i) && !Contains(plan.columns, i) && !Contains(plan.inner, i) && i != plan.lane) {
      looped.push_back(i);
    }
  }
  return looped;
}

ContractPlan FinishedPlan(const std::vector<Axis>& axes, ContractPlan plan) {
  if (plan.method == ContractPlan::Method::kMultiplyAndSum) return plan;
  plan.effective = EffectiveAxes(axes, plan);
  plan.looped = Looped(axes, plan);
  plan.m = GroupSize(axes, plan.rows);
  plan.n = GroupSize(axes, plan.columns);
  plan.k = GroupSize(axes, plan.inner);
  for (const Axis& axis : axes) plan.partial_sums *= axis.kind == Kind::kInner ? axis.size : 1;
  plan.partial_sums /= plan.k;
  return plan;
}

}  // namespace

std::shared_ptr<const ContractPlan> PlanContraction(const std::vector<Axis>& axes, int element_size, SumOrder order) {
  MemoKey key;
  key.Add(element_size).Add(static_cast<int64_t>(order));
  for (const Axis& axis : axes) {
    key.Add(static_cast<int64_t>(axis.kind)).Add(axis.size).Add(axis.a).Add(axis.b).Add(axis.c);
  }
  static auto* const plans = new Memo<ContractPlan>;
  return plans->Get(key, [&] { return FinishedPlan(axes, BestPlan(axes, element_size, order)); });
}

}  // namespace crosstalk::math
