#include "crosstalk/kernels/attention/plan.h"

#include <algorithm>
#include <thread>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk::kernels {
namespace {

constexpr int64_t kTileBytes = 256 << 10;  // of one tile; half a dozen share the second-level cache
constexpr int64_t kMostRows = 64;          // of a tile
constexpr int64_t kMixedRows = 32;         // of a tile, where heads are mixed
constexpr int64_t kBlock = 32;             // queries that share a visit to a chunk
constexpr int64_t kLongBlock = 128;        // the same where the memory is too long for any cache
// What a block's kept rows may take: the third-level cache costs less than computing tiles twice. Forward few rows do,
// rather than computing twice; backward the sums of K and V are visited as well, which takes many queries to pay.
constexpr int64_t kRowBytes = 12 << 20;
constexpr int64_t kLeastKeptRows[] = {8, 16};  // forward, backward

}  // namespace

AttentionPlan::AttentionPlan(const AttentionShape& s, AttentionPass pass) : shape(s) {
  const bool mixes = s.MixesLogits() || s.MixesWeights();
  const bool backward = pass == AttentionPass::kBackward;
  groups = mixes ? 1 : s.h;
  h_k = mixes ? s.h_k : 1;
  h = mixes ? s.h : 1;
  h_v = mixes ? s.h_v : 1;
  memory_groups = s.memory_heads == MemoryHeads::kShared ? 1 : groups;
  chunks = (s.m + kChunk - 1) / kChunk;
  d_k_padded = RoundUp(s.d_k, kMaxLanes);
  d_v_padded = RoundUp(s.d_v, kMaxLanes);

  const int64_t row_heads = !s.MixesWeights() ? 0 : !backward ? h : 2 * h + (s.MixesLogits() ? h_k : 0);
  const int64_t row_bytes = row_heads * m_padded() * 4;
  rows = mixes ? kMixedRows : kMostRows;
  const auto halve_rows = [&](int64_t bytes, int64_t limit) {
    while (rows > kQueryGroup && bytes * rows > limit) rows /= 2;
  };
  halve_rows(std::max({h_k, h, h_v}) * kChunk * 4, kTileBytes);
  keep_rows = row_bytes > 0 && row_bytes * std::min(rows, kLeastKeptRows[backward ? 1 : 0]) <= kRowBytes;
  if (keep_rows) halve_rows(row_bytes, kRowBytes);
  rows = std::min(rows, RoundUp(s.n, kQueryGroup));
  const bool computes_twice = s.MixesWeights() && !keep_rows;
  tiles = std::clamp<int64_t>((computes_twice ? kLongBlock : kBlock) / rows, 1, kMostTiles);
  while (tiles > 1 && (rows * (tiles - 1) >= s.n || (keep_rows && row_bytes * rows * tiles > kRowBytes))) --tiles;
  in_place = !backward && s.n <= kInPlaceQueries;
  // A mixing by position takes four queries at a time.
  if (in_place) rows = s.R_Ml || s.R_Mw ? kInPlaceQueries : s.n;
  block = rows * tiles;
  blocks = (s.n + block - 1) / block;
  pitch = rows * kChunk + kMaxLanes;
}

int64_t AttentionPlan::Distances() const { return RoundUp(n_padded() + m_padded(), kMaxLanes); }

void CheckAttentionShape(const AttentionShape& s) {
  CROSSTALK_CHECK(s.b >= 1 && s.n >= 1 && s.m >= 1 && s.h_k >= 1 && s.h >= 1 && s.h_v >= 1 && s.d_k >= 1 && s.d_v >= 1,
                  "attention: every dimension must be at least 1, got b=", s.b, " n=", s.n, " m=", s.m, " h_k=", s.h_k,
                  " h=", s.h, " h_v=", s.h_v, " d_k=", s.d_k, " d_v=", s.d_v);
  CROSSTALK_CHECK(s.MixesLogits() || s.h_k == s.h, "attention: without a projection of the logits h_k=", s.h_k,
                  " must equal h=", s.h);
  CROSSTALK_CHECK(s.MixesWeights() || s.h == s.h_v, "attention: without a projection of the weights h=", s.h,
                  " must equal h_v=", s.h_v);
  CROSSTALK_CHECK(s.memory_heads == MemoryHeads::kOwn || (!s.MixesLogits() && !s.MixesWeights()),
                  "attention: heads that share keys and values cannot be mixed");
  CROSSTALK_CHECK(s.causality == AttentionCausality::kNone || s.n <= s.m, "attention: causal needs n ≤ m, got n=", s.n,
                  " m=", s.m);
  CROSSTALK_CHECK(s.bias != AttentionBias::kByDistance || s.buckets >= 1,
                  "attention: a bias by distance needs buckets ≥ 1, got ", s.buckets);
}

PackedMemory::PackedMemory(const AttentionPlan& plan, AttentionPass pass, Carver& carver) {
  const AttentionShape& s = plan.shape;
  const bool backward = pass == AttentionPass::kBackward;
  const int64_t k_tiles = s.b * plan.memory_groups * plan.chunks * plan.h_k;
  const int64_t v_tiles = s.b * plan.memory_groups * plan.chunks * plan.h_v;
  if (!plan.in_place) K_by_position = carver.Floats(k_tiles * s.d_k * kChunk);
  if (!backward && !plan.in_place) V_by_size = carver.Floats(v_tiles * kChunk * plan.d_v_padded);
  if (backward) K_by_size = carver.Floats(k_tiles * kChunk * plan.d_k_padded);
  if (backward) V_by_position = carver.Floats(v_tiles * s.d_v * kChunk);
  if (s.R_Ml) R_Ml = carver.Floats(s.b * plan.m_padded() * s.h_k * s.h);
  if (s.R_Mw) R_Mw = carver.Floats(s.b * plan.m_padded() * s.h * s.h_v);
  mask = carver.Floats(s.b * plan.m_padded());
  chunk_state = carver.Flags(s.b * plan.chunks);
  if (s.bias == AttentionBias::kByDistance) distance_bias = carver.Floats(s.h * plan.Distances());
  if (s.P_l) logits = carver.Floats(s.h_k * s.h);
  if (s.P_w) weights = carver.Floats(s.h * s.h_v);
  if (backward && s.P_l) logits_back = carver.Floats(s.h_k * s.h);
  if (backward && s.P_w) weights_back = carver.Floats(s.h * s.h_v);
}

void Turns::Await(int64_t sum, int64_t turn) const {
  // Usually it is this task's turn long since: the one before it is ahead by as much as it was begun earlier.
  constexpr int kPatience = 1000;
  const std::atomic<int64_t>& passed = passed_[static_cast<size_t>(sum)];
  for (int i = 0; passed.load(std::memory_order_acquire) != turn; ++i) {
    if (i >= kPatience) std::this_thread::yield();
  }
}

void ForTasks(int64_t tasks, int slots, const std::function<void(int64_t, int)>& body) {
  std::vector<std::atomic<bool>> taken(static_cast<size_t>(slots));
  // There are as many slots as threads, so one is free.
  const auto take = [&] {
    for (;;) {
      for (size_t slot = 0; slot < taken.size(); ++slot) {
        bool expected = false;
        if (taken[slot].compare_exchange_strong(expected, true, std::memory_order_acquire)) return slot;
      }
      std::this_thread::yield();
    }
  };
  const auto run = [&](int64_t task) {
    const size_t slot = take();
    body(task, static_cast<int>(slot));
    taken[slot].store(false, std::memory_order_release);
  };
  ParallelFor(tasks, run, slots);
}

}  // namespace crosstalk::kernels
