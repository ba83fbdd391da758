#include "crosstalk/kernels/attention/plan.h"

#include <algorithm>
#include <numeric>

#include "crosstalk/kernels/gemm/amx.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk::kernels {
namespace {

constexpr int64_t kTileBytes = 256 << 10;  // a tile's; half a dozen share the second-level cache
constexpr int64_t kMostRows = 64;          // a tile's
constexpr int64_t kMixedRows = 32;         // a tile's, where heads are mixed
// Queries of a block, which share each read of a chunk of K and V: 8 multiply-adds a byte of them (attention.cc), 32
// where tiles are computed twice and K and V are too long for any cache.
constexpr int64_t kBlock = 32;
constexpr int64_t kLongBlock = 128;
// The limit on a block's kept rows, and the least number of queries that pays. Forward they lie in the third-level
// cache, from where 8 are read back sooner than their tiles are computed again. Backward each block also reads and
// writes the sums of K and V: with fewer than 16 queries that costs more than computing twice.
constexpr int64_t kLeastKeptRows[] = {8, 16};              // forward, backward
constexpr int64_t kMostRowBytes[] = {12 << 20, 80 << 20};  // for the least number
// The limit for more than the least number, if K, V and their sums stay in the third-level cache beside them. If they
// take more than kNearMemory, a block reads them from memory: 32 queries whose rows come back from there too cost less
// than 16.
constexpr int64_t kNearRowBytes = 12 << 20;
constexpr int64_t kNearMemory = 24 << 20;

// Queries of a strip (workspace.h), which computes a dozen rows around it again, and the bytes of its buffers.
constexpr int64_t kStripRows = 64;
constexpr int64_t kStripBytes = 256 << 20;
// The tasks below which tasks are made smaller, so that there is one for each thread.
constexpr int64_t kFewTasks = 8;

// Throws a usage error unless the shape is one of the family.
void CheckShape(const AttentionShape& s) {
  CROSSTALK_CHECK(s.b >= 1 && s.n >= 1 && s.m >= 1 && s.h_k >= 1 && s.h >= 1 && s.h_v >= 1 && s.d_k >= 1 && s.d_v >= 1,
                  "attention: every dimension must be at least 1, got b=", s.b, " n=", s.n, " m=", s.m, " h_k=", s.h_k,
                  " h=", s.h, " h_v=", s.h_v, " d_k=", s.d_k, " d_v=", s.d_v);
  CROSSTALK_CHECK(s.MixesLogits() || s.h_k == s.h, "attention: without a projection of the logits h_k=", s.h_k,
                  " must equal h=", s.h);
  CROSSTALK_CHECK(s.MixesWeights() || s.h == s.h_v, "attention: without a projection of the weights h=", s.h,
                  " must equal h_v=", s.h_v);
  CROSSTALK_CHECK(s.F_Xl == s.F_Ml && s.F_Xw == s.F_Mw,
                  "attention: factors of queries and of memory positions go together");
  CROSSTALK_CHECK(!s.F_Xl || s.h_k == s.h, "attention: with factors of logits h_k=", s.h_k, " must equal h=", s.h);
  CROSSTALK_CHECK(!s.F_Xw || s.h == s.h_v, "attention: with factors of weights h=", s.h, " must equal h_v=", s.h_v);
  CheckMemoryHeads(s);
  CROSSTALK_CHECK(s.causality == AttentionCausality::kNone || s.n <= s.m, "attention: causal needs n ≤ m, got n=", s.n,
                  " m=", s.m);
  CROSSTALK_CHECK(s.window == 0 || (s.window > 0 && s.causality == AttentionCausality::kCausal && !s.Convolves()),
                  "attention: a window of ", s.window, " needs causality, no convolution, and a position at least");
  CROSSTALK_CHECK((s.c_ql > 0) == (s.c_kl > 0) && (s.c_qw > 0) == (s.c_kw > 0),
                  "attention: a convolution reads at least one query and one key, got ", s.c_ql, " x ", s.c_kl, " and ",
                  s.c_qw, " x ", s.c_kw);
  CROSSTALK_CHECK(IsSupported(s), "attention: there is no kernel for convolutions beside dynamic projections");
  CROSSTALK_CHECK(s.bias != AttentionBias::kRelativePosition || s.buckets >= 1,
                  "attention: a relative position bias needs buckets ≥ 1, got ", s.buckets);
}

// Queries of a strip, fewer where its buffers would not fit a cache.
int64_t RowsOfStrip(const AttentionPlan& plan, bool backward) {
  const AttentionShape& s = plan.shape;
  const int64_t around = plan.filters[kLogits].queries_before() + plan.filters[kWeights].queries_before();
  const int64_t row_bytes = (backward ? 6 : 2) * std::max({plan.h_k, plan.h, plan.h_v}) * plan.m_padded() * 4;
  int64_t rows = kStripRows;
  while (rows > kQueryGroup && row_bytes * (rows + around) > kStripBytes) rows /= 2;
  while (rows > kQueryGroup && s.b * plan.groups * CeilDivide(s.n, rows) < kFewTasks && rows / 2 > around) rows /= 2;
  return std::min(rows, RoundUp<int64_t>(s.n, kQueryGroup));
}

// Heads of a few queries that are computed together, as they read the same rows of K and of V.
int64_t HeadsTogether(const AttentionPlan& plan) {
  const int64_t most = std::gcd(plan.keys.neighbours, plan.values.neighbours);
  int64_t heads = most;
  while (heads > 1 && (most % heads != 0 || plan.shape.b * plan.shape.h < kFewTasks * heads)) --heads;
  return heads;
}

// By sizes other than the number of queries: one that is decoded alone has the same bits.
bool FillsTiles(const AttentionShape& s) {
  return s.precision == Precision::kBFloat16 && BFloat16UnitInUse() == BFloat16Unit::kTiles && !s.Convolves() &&
         s.d_k % kMaxLanes == 0 && s.d_v % kMaxLanes == 0;
}

}  // namespace

void CheckMemoryHeads(const AttentionShape& s) {
  const auto check = [](const char* shared, int64_t g, const char* readers, int64_t heads, int64_t multiple) {
    CROSSTALK_CHECK(g == 0 || (g > 0 && heads % g == 0), "attention: ", readers, "=", heads, " heads cannot share ",
                    shared, "=", g, ", which must divide them");
    CROSSTALK_CHECK(g == 0 || g == heads || (g % multiple == 0 && heads % multiple == 0), "attention: pairs of ",
                    readers, "=", heads, " heads cannot share pairs of ", shared, "=", g, ": both must be even");
  };
  check("g_k", s.g_k, "h_k", s.h_k, s.key_sharing == KeySharing::kPairs ? 2 : 1);
  check("g_v", s.g_v, "h_v", s.h_v, 1);
}

bool IsSupported(const AttentionShape& s) {
  return !s.Convolves() || !(s.R_Xl || s.R_Ml || s.R_Xw || s.R_Mw || s.F_Xl || s.F_Xw);
}

MemoryHeads::MemoryHeads(int64_t memory_heads, int64_t query_heads, KeySharing sharing, bool mixed)
    : heads(memory_heads > 0 ? memory_heads : query_heads), in_group(mixed ? heads : 1), readers(query_heads) {
  const int64_t share = query_heads / heads, together = sharing == KeySharing::kPairs && share > 1 ? 2 : 1;
  neighbours = together == 1 ? share : 1;
  for (int64_t i = 0; i < query_heads; ++i) {
    const int64_t pair = i / together;
    readers[static_cast<size_t>(i)] = {.head = pair / share * together + i % together, .place = pair % share};
  }
}

AttentionPlan::AttentionPlan(const AttentionShape& s, AttentionPass pass) : shape(s) {
  CheckShape(s);
  for (const MixingSide side : kMixingSides) {
    mixings[side] = SideShape(s, side);
    filters[side] = FilterShape(s, side);
  }
  const bool mixes = s.MixesLogits() || s.MixesWeights();
  const bool backward = pass == AttentionPass::kBackward;
  terms = s.precision == Precision::kBFloat16 ? 2 : 1;
  in_place = s.n <= kInPlaceQueries && terms == 1 && !s.Convolves();
  keys = MemoryHeads(s.g_k, s.h_k, s.key_sharing, mixes);
  values = MemoryHeads(s.g_v, s.h_v, KeySharing::kConsecutive, mixes);
  const int64_t together = in_place && !backward ? HeadsTogether(*this) : 1;
  groups = mixes ? 1 : s.h / together;
  h_k = mixes ? s.h_k : together;
  h = mixes ? s.h : together;
  h_v = mixes ? s.h_v : together;
  chunks = CeilDivide<int64_t>(s.m, kChunk);
  if (s.window >= s.m) shape.window = 0;
  // Positions that the queries of the longest block see together, which may begin and end within a chunk.
  kept_chunks = shape.window == 0 ? chunks : std::min(chunks, (shape.window + kLongBlock) / kChunk + 2);
  on_tiles = FillsTiles(s);
  const int64_t columns = on_tiles ? kTileBlock : kMaxLanes;
  d_k_padded = RoundUp(s.d_k, columns);
  d_v_padded = RoundUp(s.d_v, columns);
  mixes_on_tiles = on_tiles && mixes && EqualParts(h_k) > 0 && EqualParts(h) > 0 && EqualParts(h_v) > 0;
  const int64_t kept_W = Lanes(h) * terms;  // lanes of W, and of dW, in pairs of heads
  const int64_t row_heads = !s.MixesWeights() ? 0 : !backward ? kept_W : 2 * kept_W + (s.MixesLogits() ? h_k : 0);
  const int64_t row_bytes = row_heads * kept_chunks * kChunk * 4 / terms;
  rows = mixes ? kMixedRows : kMostRows;
  while (rows > kQueryGroup && std::max({h_k, h, h_v}) * kChunk * 4 * rows > kTileBytes) rows /= 2;
  // Bytes of K, V and their sums that each block of a backward pass reads and writes, in any precision (attention.cc).
  const int64_t memory_bytes = kept_chunks * kChunk * (4 * keys.in_group * s.d_k + 3 * values.in_group * s.d_v) * 4;
  const int64_t least_rows = kLeastKeptRows[backward ? 1 : 0], most_bytes = kMostRowBytes[backward ? 1 : 0];
  const int64_t enough_bytes = backward && memory_bytes > kNearMemory ? most_bytes : kNearRowBytes;
  keep_rows = row_bytes > 0 && row_bytes * least_rows <= most_bytes;
  const auto too_many = [&](int64_t queries) { return queries > least_rows && row_bytes * queries > enough_bytes; };
  while (keep_rows && too_many(rows)) rows /= 2;
  rows = std::min(rows, RoundUp<int64_t>(s.n, on_tiles && 2 * s.n > kTileBlock ? kTileBlock : kQueryGroup));
  if (on_tiles) query_group = std::min(rows, kTileBlock);
  sums_on_tiles = query_group == kTileBlock;
  const bool computes_twice = s.MixesWeights() && !keep_rows;
  tiles = std::clamp<int64_t>((computes_twice ? kLongBlock : kBlock) / rows, 1, kMostTiles);
  while (tiles > 1 && (rows * (tiles - 1) >= s.n || (keep_rows && too_many(rows * tiles)))) --tiles;
  // A mixing by position takes four queries at a time.
  if (in_place && !backward)
    rows = mixings[kLogits].MixesByPosition() || mixings[kWeights].MixesByPosition() ? kInPlaceQueries : s.n;
  if (s.Convolves()) {
    rows = RowsOfStrip(*this, backward);
    tiles = 1;
    keep_rows = false;
  }
  block = rows * tiles;
  blocks = CeilDivide(s.n, block);
  pitch = rows * kChunk + kMaxLanes;
  position_pitch = rows * kChunk / terms + kMaxLanes;
}

int64_t AttentionPlan::Distances() const { return RoundUp<int64_t>(n_padded() + m_padded(), kMaxLanes); }

int64_t KeptLogits(const AttentionShape& s) {
  const int64_t m_padded = RoundUp<int64_t>(s.m, kChunk);
  const bool keeps =
      !s.MixesLogits() && !s.MixesWeights() && !s.Convolves() && m_padded <= s.d_k && s.n > kInPlaceQueries;
  return keeps ? s.b * s.h * s.n * m_padded : 0;
}

void CheckSoftmaxStats(const AttentionShape& s, const SoftmaxStats& stats) {
  CROSSTALK_CHECK(stats.L == nullptr || KeptLogits(s) > 0,
                  "attention: there is a place for L, but L is not kept with m=", s.m, ", d_k=", s.d_k, ", n=", s.n,
                  s.MixesLogits() || s.MixesWeights() ? " and mixed heads" : "");
}

namespace {

int64_t StatesOfPlace(const AttentionPlan& plan) { return PlaceStride(plan.chunks); }

}  // namespace

template <class Use>
void PackedMemory::ForEachOfPlaces(const AttentionPlan& plan, AttentionPass pass, const Use& use) {
  const AttentionShape& s = plan.shape;
  const bool backward = pass == AttentionPass::kBackward;
  const int64_t k_tiles = plan.chunks * plan.keys.heads, v_tiles = plan.chunks * plan.values.heads;
  use(K_by_position, !plan.in_place, k_tiles * plan.Lanes(s.d_k) * kChunk);
  use(V_by_size, !backward && !plan.in_place, v_tiles * plan.Lanes(kChunk) * plan.d_v_padded);
  use(K_by_size, backward, k_tiles * plan.Lanes(kChunk) * plan.d_k_padded);
  use(V_by_position, backward, v_tiles * plan.Lanes(s.d_v) * kChunk);
  for (const MixingSide side : kMixingSides) {
    const SideShape& mixes = plan.mixings[side];
    use(R_M[side], mixes.has[kPerPosition], plan.m_padded() * plan.MixingLanes(side) * mixes.out);
    use(R_M_back[side], mixes.has[kPerPosition] && backward && plan.terms > 1,
        plan.m_padded() * plan.MixingLanesBack(side) * mixes.in);
    use(F_M[side], mixes.has_factors(), plan.m_padded() * mixes.size(kFactors));
  }
  use(mask, true, plan.m_padded());
}

PackedMemory::PackedMemory(const AttentionPlan& plan, AttentionPass pass, int64_t places, Arena& arena) {
  const AttentionShape& s = plan.shape;
  const bool backward = pass == AttentionPass::kBackward;
  ForEachOfPlaces(plan, pass, [&](auto& array, bool has, int64_t floats) {
    if (has) array = arena.Floats(places * PlaceStride(floats));
  });
  chunk_state = arena.Flags(places * StatesOfPlace(plan));
  for (const MixingSide side : kMixingSides) {
    const SideShape& mixes = plan.mixings[side];
    const int64_t size = plan.MixingLanes(side) * mixes.out, size_back = plan.MixingLanesBack(side) * mixes.in;
    if (mixes.has[kStatic]) P[side] = arena.Floats(size);
    if (mixes.has[kStatic] && backward) P_back[side] = arena.Floats(size_back);
    const int64_t taps_size = plan.filters[side].taps() * (side == kLogits ? s.h_k : s.h);
    taps[side] = arena.Floats(taps_size);
    if (backward) taps_back[side] = arena.Floats(taps_size);
  }
  if (s.bias == AttentionBias::kRelativePosition) distance_bias = arena.Floats(s.h * plan.Distances());
}

PackedMemory PackedMemory::From(const AttentionPlan& plan, int64_t place) const {
  PackedMemory from = *this;
  from.ForEachOfPlaces(plan, AttentionPass::kForward, [&](auto& array, bool, int64_t floats) {
    if (!(array == nullptr)) array = array + place * PlaceStride(floats);
  });
  from.chunk_state += place * StatesOfPlace(plan);
  return from;
}

}  // namespace crosstalk::kernels
