// The backward pass around one block of queries: the tasks, the order in which they add to shared sums (dK, dV, dR_M,
// the bias's gradient), and the copy of the sums into the gradients. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_BACKWARD_TASKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_BACKWARD_TASKS_INL_H_
#undef CROSSTALK_ATTENTION_BACKWARD_TASKS_INL_H_
#else
#define CROSSTALK_ATTENTION_BACKWARD_TASKS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <vector>

#include "crosstalk/kernels/attention/backward-inl.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/strip_backward-inl.h"
#include "crosstalk/kernels/attention/workspace.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

// Common to all tasks.
struct BackwardTasks {
  const BackwardPass& pass;
  const WantedGradients& wanted;
  PackedMemory packed;  // here and below from the place of the task's batch row on
  BackwardSums sums;
  OrderedReduction &K_order, &V_order;  // [b][group][chunk], groups of MemoryHeads
  OrderedReduction& bias_order;         // [group][block], for a dense bias
};

// Σ over the block's distances, bucket by bucket: buckets[h][buckets] of the group.
HWY_INLINE void SumBuckets(const AttentionPlan& plan, const int32_t* distance_bucket, int64_t first_query,
                           const float* distances, float* buckets) {
  const AttentionShape& s = plan.shape;
  const int64_t shift = first_query + plan.block - s.n;  // from a distance's index among all to that in the block
  const int64_t begin = std::max<int64_t>(0, -shift), end = std::min(s.n + s.m - 1, plan.BlockDistances() - shift);
  std::fill_n(buckets, plan.h * s.buckets, 0.0f);
  for (int64_t k = 0; k < plan.h; ++k) {
    const float* row = distances + k * plan.BlockDistances() + shift;
    for (int64_t i = begin; i < end; ++i) buckets[k * s.buckets + distance_bucket[i]] += row[i];
  }
}

// The sums of its memory to which a task adds, and its turn.
HWY_INLINE MemorySums MemoryOfTask(const BackwardTasks& tasks, int64_t b, int64_t group, int64_t block) {
  const AttentionPlan& plan = tasks.pass.plan;
  const AttentionShape& s = plan.shape;
  const BackwardSums& sums = tasks.sums;
  const auto sums_of = [&](const MemoryHeads& memory, int64_t size, float* sum, OrderedReduction& order) {
    const int64_t first_tile = TileReadBy(plan, memory, group, 0, 0);
    return SumsOfMemory{sum + first_tile * size * kChunk, &order,
                        b * memory.groups() * plan.chunks + first_tile / memory.in_group,
                        memory.PlaceOf(group * plan.h) * plan.blocks + block};
  };
  MemorySums memory{
      sums_of(plan.keys, s.d_k, sums.K, tasks.K_order), sums_of(plan.values, s.d_v, sums.V, tasks.V_order), {}};
  for (const MixingSide side : kMixingSides) {
    for (const MixingForm form : kMixingForms) memory.R_M[side][form] = sums.R_M[side][form];
  }
  return memory;
}

// Task (b, group, block), numbered in that order: one block of queries.
template <class Terms>
HWY_NOINLINE void BackwardTask(const BackwardTasks& tasks, const BackwardScratch& thread_scratch,
                               MatrixTiles* matrix_tiles, int64_t task) {
  const BackwardPass& pass = tasks.pass;
  const AttentionPlan& plan = pass.plan;
  const AttentionShape& s = plan.shape;
  const BackwardSums& sums = tasks.sums;
  const int64_t block = task % plan.blocks, group = task / plan.blocks % plan.groups;
  const int64_t b = task / plan.blocks / plan.groups;
  const bool dense_bias = tasks.wanted.bias;

  BackwardScratch scratch = thread_scratch;
  if (!tasks.wanted.distances) scratch.distances = nullptr;
  for (const MixingSide side : kMixingSides) {
    if (!tasks.wanted.mixings[side][kStatic]) scratch.P[side] = nullptr;
    for (const MixingForm form : kMixingForms) {
      if (!tasks.wanted.mixings[side][kByQuery[form]]) scratch.R_X[side][form] = nullptr;
    }
    if (scratch.P[side] != nullptr) std::fill_n(scratch.P[side], plan.mixings[side].size() * kPartialSums, 0.0f);
  }
  if (scratch.distances != nullptr) std::fill_n(scratch.distances, plan.h * plan.BlockDistances(), 0.0f);

  const MemorySums memory = MemoryOfTask(tasks, b, group, block);
  const int64_t tiles = CeilDivide(std::min(plan.block, s.n - block * plan.block), plan.rows);
  std::array<BackwardTile, kMostTiles> tile;
  for (int64_t t = 0; t < tiles; ++t) {
    tile[t] = {MakeQueryTile(plan, pass.call, tasks.packed, pass.stats, matrix_tiles, b, group, block, t)};
    tile[t].scratch = &scratch;
    tile[t].out = &pass.out;
    tile[t].dbias = dense_bias ? pass.out.bias.data : nullptr;
    tile[t].distances = scratch.distances;
  }
  // The batch rows share the gradient of a dense bias.
  if (dense_bias) tasks.bias_order.WaitFor(group * plan.blocks + block, b);
  BackwardBlock<Terms>(tile.data(), tiles, memory, pass.O, pass.dO, pass.stats);
  if (dense_bias) tasks.bias_order.Done(group * plan.blocks + block);

  for (const MixingSide side : kMixingSides) {
    const int64_t size = plan.mixings[side].size();
    if (scratch.P[side] == nullptr) continue;
    if (plan.mixes_on_tiles) {
      std::copy_n(scratch.P[side], size, sums.P[side] + task * size);
    } else {
      SumLanes(size, scratch.P[side], sums.P[side] + task * size);
    }
  }
  if (scratch.distances != nullptr) {
    SumBuckets(plan, pass.call.distance_bucket, block * plan.block, scratch.distances,
               sums.buckets + task * plan.h * s.buckets);
  }
}

// The same task with convolutions: a strip.
template <class Terms>
HWY_NOINLINE void BackwardStripTask(const BackwardTasks& tasks, const StripScratch& scratch, int64_t task) {
  const BackwardPass& pass = tasks.pass;
  const AttentionPlan& plan = pass.plan;
  const BackwardSums& sums = tasks.sums;
  const int64_t block = task % plan.blocks, group = task / plan.blocks % plan.groups;
  const int64_t b = task / plan.blocks / plan.groups;
  for (const MixingSide side : kMixingSides) {
    std::fill_n(scratch.P[side], plan.mixings[side].size() * kPartialSums, 0.0f);
    std::fill_n(scratch.taps[side], plan.FilterHeads(side) * plan.filters[side].taps() * kFilterLanes, 0.0f);
  }
  if (tasks.wanted.distances) std::fill_n(scratch.distances, plan.h * plan.BlockDistances(), 0.0f);
  // The batch rows share the gradient of a dense bias.
  if (tasks.wanted.bias) tasks.bias_order.WaitFor(group * plan.blocks + block, b);
  BackwardStrip<Terms>(pass, tasks.wanted, tasks.packed, scratch, MemoryOfTask(tasks, b, group, block), b, group,
                       block);
  if (tasks.wanted.bias) tasks.bias_order.Done(group * plan.blocks + block);
  for (const MixingSide side : kMixingSides) {
    const int64_t size = plan.mixings[side].size(), taps = plan.FilterHeads(side) * plan.filters[side].taps();
    if (sums.P[side] != nullptr) SumLanes(size, scratch.P[side], sums.P[side] + task * size);
    if (sums.taps[side] != nullptr) SumLanes(taps, scratch.taps[side], sums.taps[side] + task * taps);
  }
  if (tasks.wanted.distances) {
    SumBuckets(plan, pass.call.distance_bucket, block * plan.block, scratch.distances,
               sums.buckets + task * plan.h * plan.shape.buckets);
  }
}

// total[size] = Σ over the tasks of a group, in their order, of their own sums[task][size].
HWY_INLINE void SumTasks(const AttentionPlan& plan, int64_t group, int64_t size, const float* sums, float* total) {
  std::fill_n(total, size, 0.0f);
  for (int64_t b = 0; b < plan.shape.b; ++b) {
    const float* own = sums + (b * plan.groups + group) * plan.blocks * size;
    for (int64_t block = 0; block < plan.blocks; ++block, own += size) {
      for (int64_t i = 0; i < size; ++i) total[i] += own[i];
    }
  }
}

// The sums of one chunk, at its batch row's place, into the rows of the gradients: tile[size, kChunk] becomes kChunk
// rows.
HWY_NOINLINE inline void FinishMemoryChunk(const AttentionPlan& plan, const AttentionCall& call,
                                           const BackwardSums& sums, const AttentionGradients& out, int64_t b,
                                           int64_t chunk) {
  const AttentionShape& s = plan.shape;
  const int64_t first = chunk * kChunk, rows = std::min<int64_t>(kChunk, s.m - first), position = b * s.m + first;
  const auto finish = [&](const float* tile, int64_t size, float scale, float* row, int64_t stride) {
    TransposeScaled(size, size, rows, tile, kChunk, scale, row, stride);
  };
  for (int64_t k = 0; k < plan.keys.heads; ++k) {
    finish(sums.K + MemoryTile(plan, plan.keys, k, chunk) * s.d_k * kChunk, s.d_k, static_cast<float>(call.scale),
           out.K.data + position * out.K.stride + k * s.d_k, out.K.stride);
  }
  for (int64_t k = 0; k < plan.values.heads; ++k) {
    finish(sums.V + MemoryTile(plan, plan.values, k, chunk) * s.d_v * kChunk, s.d_v, 1.0f,
           out.V.data + position * out.V.stride + k * s.d_v, out.V.stride);
  }
  for (const MixingSide side : kMixingSides) {
    for (const MixingForm form : kMixingForms) {
      const int64_t size = plan.mixings[side].size(form);
      if (sums.R_M[side][form] == nullptr) continue;
      finish(sums.R_M[side][form] + chunk * size * kChunk, size, 1.0f,
             MixingOf(out, side, kByPosition[form]).data + position * size, size);
    }
  }
}

// The whole pass, with the operands of products as Terms says.
template <class Terms>
void BackwardIn(const BackwardPass& pass) {
  const AttentionPlan& plan = pass.plan;
  const AttentionCall& call = pass.call;
  const AttentionGradients& out = pass.out;
  const int threads = pass.threads;
  const AttentionShape& s = plan.shape;
  const WantedGradients wanted(s, &out);
  Arena arena(pass.workspace);
  const TaskOrder order(plan, wanted, threads);
  const Places places(s.b, order.own_rows(), threads);
  PackedMemory packed(plan, AttentionPass::kBackward, places.count(), arena);
  if (pass.stats.L != nullptr) packed.K_by_position = {};  // only logits' products read it
  const BackwardSums sums(plan, wanted, places.count(), arena);
  std::vector<BackwardScratch> scratch;
  std::vector<StripScratch> strip_scratch;
  for (int i = 0; i < threads; ++i) {
    if (s.Convolves()) {
      strip_scratch.emplace_back(plan, AttentionPass::kBackward, arena);
    } else {
      scratch.emplace_back(plan, wanted, arena);
    }
  }

  PackStatic<Terms>(plan, call, packed);
  if (wanted.bias) {
    ParallelFor(s.h, [&](int64_t head) { std::fill_n(out.bias.data + head * s.n * s.m, s.n * s.m, 0.0f); });
  }
  OrderedReduction K_order(s.b * plan.keys.groups() * plan.chunks), V_order(s.b * plan.values.groups() * plan.chunks),
      bias_order(wanted.bias ? plan.groups * plan.blocks : 0);
  const auto run = [&](int64_t task, int slot) {
    typename Terms::Arithmetic arithmetic(plan);
    const auto own = static_cast<size_t>(slot);
    const int64_t place = places.Of(task / order.tasks_of_row(), slot);
    const BackwardTasks tasks{pass,    wanted,    packed.From(plan, place), sums.From(plan, place), K_order,
                              V_order, bias_order};
    if (s.Convolves()) return BackwardStripTask<Terms>(tasks, strip_scratch[own], task);
    BackwardTask<Terms>(tasks, scratch[own], arithmetic.tiles(), task);
  };
  const auto pack = [&](int64_t b, int64_t chunk, int slot) {
    PackMemoryChunk<Terms>(plan, call, packed.From(plan, places.Of(b, slot)), b, chunk);
  };
  const auto finish = [&](int64_t b, int64_t chunk, int slot) {
    FinishMemoryChunk(plan, call, sums.From(plan, places.Of(b, slot)), out, b, chunk);
  };
  ParallelForWithScratch(order.own_rows(), threads, TileOrder::kLocal, [&](int64_t b, int slot) {
    for (int64_t c = 0; c < plan.chunks; ++c) pack(b, c, slot);
    for (int64_t i = 0; i < order.tasks_of_row(); ++i) {
      if (b + 1 < s.b) {
        PrefetchBatchRow({{call.Q, s.n, s.h_k * s.d_k},
                          {call.K, s.m, plan.keys.heads * s.d_k},
                          {call.V, s.m, plan.values.heads * s.d_v},
                          {pass.O, s.n, s.h_v * s.d_v},
                          {pass.dO, s.n, s.h_v * s.d_v}},
                         b + 1, i, order.tasks_of_row());
      }
      run(b * order.tasks_of_row() + i, slot);
    }
    for (int64_t c = 0; c < plan.chunks; ++c) finish(b, c, slot);
  });
  const auto for_other_chunks = [&](const auto& body) {
    ParallelFor((s.b - order.own_rows()) * plan.chunks,
                [&](int64_t i) { body(order.own_rows() + i / plan.chunks, i % plan.chunks, 0); }, TileOrder::kLocal);
  };
  for_other_chunks(pack);
  ParallelForWithScratch(order.other_tasks(), threads, TileOrder::kInOrder,
                         [&](int64_t i, int slot) { run(order.OtherTask(i), slot); });
  for_other_chunks(finish);

  for (const MixingSide side : kMixingSides) {
    if (!wanted.mixings[side][kStatic]) continue;  // such a side has one group
    SumTasks(plan, 0, plan.mixings[side].size(), sums.P[side], MixingOf(out, side, kStatic).data);
  }
  for (const MixingSide side : kMixingSides) {
    if (!wanted.filters[side]) continue;
    const int64_t heads = plan.FilterHeads(side), taps = plan.filters[side].taps();
    std::vector<float> total(static_cast<size_t>(heads * taps));
    for (int64_t group = 0; group < plan.groups; ++group) {
      SumTasks(plan, group, heads * taps, sums.taps[side], total.data());
      for (int64_t i = 0; i < heads * taps; ++i) {
        out[kFilters[side]].data[i % taps * heads * plan.groups + group * heads + i / taps] =
            total[static_cast<size_t>(i)];
      }
    }
  }
  for (int64_t group = 0; wanted.distances && group < plan.groups; ++group) {
    const int64_t size = plan.h * s.buckets;
    SumTasks(plan, group, size, sums.buckets, out.bias_table.data + group * size);
  }
}

CROSSTALK_END_TARGET

#endif
