// The backward pass beyond one block of queries: a task's blocks one after another, and the sums of all tasks put
// together in order. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_BACKWARD_TASKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_BACKWARD_TASKS_INL_H_
#undef CROSSTALK_ATTENTION_BACKWARD_TASKS_INL_H_
#else
#define CROSSTALK_ATTENTION_BACKWARD_TASKS_INL_H_
#endif

#include <algorithm>
#include <new>

#include "kernels/attention/backward-inl.h"
#include "kernels/attention/backward_buffers.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// One task: a range of query blocks of some batch rows and groups, whose sums over queries it owns.
HWY_NOINLINE inline void BackwardTask(const AttentionPlan& plan, const BackwardTasks& tasks, const AttentionInputs& in,
                                      const PackedMemory& packed, const BackwardSums& sums,
                                      const BackwardScratch& shared, const ConstRows& O,
                                      const AttentionStatistics& statistics, const ConstRows& dO,
                                      const AttentionGradients& out, int64_t task) {
  const AttentionShape& s = plan.shape;
  const int64_t split = task % plan.splits;
  const int64_t group_range = s.h / plan.h / tasks.groups, batch_range = s.b / tasks.batches;
  const int64_t first_group = task / plan.splits % tasks.groups * group_range;
  const int64_t first_batch = task / plan.splits / tasks.groups * batch_range;

  BackwardScratch scratch = shared;
  if (sums.P_l == nullptr) scratch.P_l = nullptr;
  if (sums.P_w == nullptr) scratch.P_w = nullptr;
  if (out.dR_Xl == nullptr) scratch.R_Xl = nullptr;
  if (out.dR_Xw == nullptr) scratch.R_Xw = nullptr;
  if (scratch.P_l != nullptr) std::fill_n(scratch.P_l, s.h_k * s.h * kLanes, 0.0f);
  if (scratch.P_w != nullptr) std::fill_n(scratch.P_w, s.h * s.h_v * kLanes, 0.0f);
  const int64_t distances = plan.h * group_range * plan.Distances();
  float* const task_distances = sums.distances == nullptr ? nullptr : sums.distances + task * distances;
  if (task_distances != nullptr) std::fill_n(task_distances, distances, 0.0f);

  for (int64_t b = first_batch; b < first_batch + batch_range; ++b) {
    for (int64_t g = first_group; g < first_group + group_range; ++g) {
      const int64_t part = sums.Split(plan, b, g, split);
      MemorySums split_sums{sums.K + part * sums.K_size, sums.V + part * sums.V_size,
                            sums.R_Ml == nullptr ? nullptr : sums.R_Ml + part * sums.R_Ml_size,
                            sums.R_Mw == nullptr ? nullptr : sums.R_Mw + part * sums.R_Mw_size, g == first_group};
      if (g == first_group) {
        if (split_sums.R_Ml != nullptr) std::fill_n(split_sums.R_Ml, sums.R_Ml_size, 0.0f);
        if (split_sums.R_Mw != nullptr) std::fill_n(split_sums.R_Mw, sums.R_Mw_size, 0.0f);
      }
      for (int64_t i = plan.blocks * split / plan.splits; i < plan.blocks * (split + 1) / plan.splits; ++i) {
        const int64_t tiles = (std::min(plan.block, s.n - i * plan.block) + plan.rows - 1) / plan.rows;
        alignas(BackwardTile) unsigned char memory[kMostTiles * sizeof(BackwardTile)];
        BackwardTile* const tile = reinterpret_cast<BackwardTile*>(memory);
        for (int64_t t = 0; t < tiles; ++t) {
          new (tile + t) BackwardTile{MakeQueryTile(plan, in, packed, b, g, i, t),
                                      scratch,
                                      out,
                                      task_distances,
                                      nullptr,
                                      nullptr,
                                      nullptr,
                                      nullptr,
                                      nullptr,
                                      nullptr,
                                      nullptr,
                                      nullptr,
                                      {},
                                      {},
                                      {}};
        }
        BackwardBlock(tile, tiles, split_sums, O, dO, statistics);
        split_sums.first = false;
      }
    }
  }
  if (scratch.P_l != nullptr) SumLanes(s.h_k * s.h, scratch.P_l, sums.P_l + task * s.h_k * s.h);
  if (scratch.P_w != nullptr) SumLanes(s.h * s.h_v, scratch.P_w, sums.P_w + task * s.h * s.h_v);
}

// The sums of all splits of one chunk, in order, into the rows of `out`: tile[size, kChunk] becomes kChunk rows.
HWY_INLINE void FinishTile(const AttentionPlan& plan, int64_t size, float* first_split, int64_t split_size, float scale,
                           int64_t rows, float* out, int64_t stride) {
  const Lane d;
  for (int64_t split = 1; split < plan.splits; ++split) {
    const float* other = first_split + split * split_size;
    for (int64_t i = 0; i < size * kChunk; i += kLanes) {
      hn::Store(hn::Add(hn::Load(d, first_split + i), hn::Load(d, other + i)), d, first_split + i);
    }
  }
  TransposeScaled(size, size, rows, first_split, kChunk, scale, out, stride);
}

HWY_NOINLINE inline void FinishMemoryChunk(const AttentionPlan& plan, const AttentionInputs& in,
                                           const BackwardSums& sums, const AttentionGradients& out, int64_t b,
                                           int64_t chunk) {
  const AttentionShape& s = plan.shape;
  const int64_t first = chunk * kChunk, rows = std::min<int64_t>(kChunk, s.m - first), position = b * s.m + first;
  for (int64_t g = 0; g < plan.memory_groups; ++g) {
    const int64_t memory = sums.Split(plan, b, g, 0);
    for (int64_t k = 0; k < plan.h_k; ++k) {
      FinishTile(plan, s.d_k, sums.K + memory * sums.K_size + (chunk * plan.h_k + k) * s.d_k * kChunk, sums.K_size,
                 in.scale, rows, out.dK.data + position * out.dK.stride + (g * plan.h_k + k) * s.d_k, out.dK.stride);
    }
    for (int64_t k = 0; k < plan.h_v; ++k) {
      FinishTile(plan, s.d_v, sums.V + memory * sums.V_size + (chunk * plan.h_v + k) * s.d_v * kChunk, sums.V_size,
                 1.0f, rows, out.dV.data + position * out.dV.stride + (g * plan.h_v + k) * s.d_v, out.dV.stride);
    }
  }
  const int64_t memory = sums.Split(plan, b, 0, 0);
  if (sums.R_Ml != nullptr) {
    const int64_t size = s.h_k * s.h;
    FinishTile(plan, size, sums.R_Ml + memory * sums.R_Ml_size + chunk * size * kChunk, sums.R_Ml_size, 1.0f, rows,
               out.dR_Ml + position * size, size);
  }
  if (sums.R_Mw != nullptr) {
    const int64_t size = s.h * s.h_v;
    FinishTile(plan, size, sums.R_Mw + memory * sums.R_Mw_size + chunk * size * kChunk, sums.R_Mw_size, 1.0f, rows,
               out.dR_Mw + position * size, size);
  }
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
