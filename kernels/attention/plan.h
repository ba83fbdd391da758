// How the fused attention is cut: tile sizes, what a task is, and where everything lies in the workspace. All of it
// follows from the shape alone, so that the bits do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/call.h"
#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk::kernels {

inline constexpr int kChunk = 32;          // memory positions of a tile: two AVX-512 vectors
inline constexpr int kQueryGroup = 8;      // queries that share a register block
inline constexpr int kMaxLanes = 16;       // floats of the widest vector
inline constexpr int kMostTiles = 8;       // in a block
inline constexpr int kInPlaceQueries = 4;  // queries at most for which K is read in place, and forward V
// Partial sums of every sum over the positions of a row, kSumLanes<float> of simd-inl.h: number i takes the positions
// i, i + 16, … whatever the width of the vectors.
inline constexpr int kPartialSums = 16;

// `heads` rows of a mixing matrix, in blocks of at most `limit` rows, as equal as possible.
struct HeadBlocks {
  HeadBlocks(int64_t heads, int64_t limit)
      : count(CeilDivide(heads, limit)), base(heads / count), larger(heads % count) {}
  int64_t Rows(int64_t block) const { return base + (block < larger ? 1 : 0); }
  int64_t count, base, larger;
};

// Two consecutive terms of a sum in bfloat16, the first in the lower half (bfloat16-inl.h).
struct Pair {
  uint32_t bits;
};
// The same by the dimension of the sum, and how a tile of them lies.
struct SizePair : Pair {};  // along d_k or d_v
struct HeadPair : Pair {};  // T[head / 2][row][kChunk], pairs of heads `pitch` apart: what a mixing reads
struct PositionPair : Pair {
};                           // T[head][row][kChunk / 2], position j beside j + kChunk / 2; heads position_pitch apart
struct QueryPair : Pair {};  // T[head][row / 2][kChunk], heads position_pitch apart

// Memory of lanes of 32 bits, which are floats or, in bfloat16, such pairs.
template <class PairOf>
class Lanes {
 public:
  Lanes() = default;
  Lanes(const float* data) : data_(const_cast<float*>(data)) {}  // read alone where it is const
  float* floats() const { return static_cast<float*>(data_); }
  PairOf* pairs() const { return static_cast<PairOf*>(data_); }
  Lanes operator+(int64_t lanes) const { return floats() + lanes; }
  bool operator==(std::nullptr_t) const { return data_ == nullptr; }

 private:
  void* data_ = nullptr;
};

// A stage that is written for the one or for the other, of the Terms that a lane holds: products-inl.h.
template <class Terms>
concept InFloat = Terms::kTerms == 1;
template <class Terms>
concept InPairs = Terms::kTerms == 2;

// The lanes of such memory.
template <class Terms, class PairOf>
using LaneAs = std::conditional_t<InFloat<Terms>, float, PairOf>;
template <class Terms>
using HeadLane = LaneAs<Terms, HeadPair>;
template <class Terms>
using PositionLane = LaneAs<Terms, PositionPair>;
template <class Terms>
using QueryLane = LaneAs<Terms, QueryPair>;
template <class Terms, class PairOf>
LaneAs<Terms, PairOf>* In(const Lanes<PairOf>& lanes) {
  if constexpr (InFloat<Terms>) {
    return lanes.floats();
  } else {
    return lanes.pairs();
  }
}
// Those of a row of a tile in which a sum goes over positions.
template <class Terms>
inline constexpr int kRow = kChunk / Terms::kTerms;

enum class AttentionPass { kForward, kBackward };

// The heads of K, or of V, and the query heads that read them.
struct MemoryHeads {
  struct Reader {
    int64_t head = 0;   // that it reads
    int64_t place = 0;  // among the readers of that head
  };

  MemoryHeads() = default;
  // `mixed`: one task reads them all, else one of them.
  MemoryHeads(int64_t memory_heads, int64_t query_heads, KeySharing sharing, bool mixed);

  int64_t groups() const { return heads / in_group; }
  int64_t Of(int64_t query_head) const { return readers[static_cast<size_t>(query_head)].head; }
  int64_t PlaceOf(int64_t query_head) const { return readers[static_cast<size_t>(query_head)].place; }

  int64_t heads = 1;
  int64_t in_group = 1;         // that a task reads: all where heads are mixed, else one
  int64_t neighbours = 1;       // query heads that read one head and lie together
  std::vector<Reader> readers;  // by query head
};

// A tile holds, for each head, `rows` queries by kChunk memory positions: T[head][row][kChunk], heads `pitch` apart
// (one vector of padding keeps equal rows of neighbouring heads out of the same cache set). A few of them fit into the
// second-level cache. A block is `tiles` tiles, whose queries share each visit to a chunk of K and V, which come from
// farther away.
struct AttentionPlan {
  // Throws a usage error unless `shape` is one of the family.
  AttentionPlan(const AttentionShape& shape, AttentionPass pass);

  AttentionShape shape;
  SideShape mixings[2];  // by MixingSide
  FilterShape filters[2];
  // With head mixing one group holds all heads. Else every head is computed on its own, as a group of one; of a few
  // queries, those that share K and V together, so that their rows are read once.
  int64_t groups = 1;
  int64_t h_k = 1, h = 1, h_v = 1;  // heads of a group
  MemoryHeads keys, values;
  int64_t chunks = 0;  // the memory's
  int64_t d_k_padded = 0, d_v_padded = 0;
  int64_t rows = 0, tiles = 0;    // queries of a tile; tiles of a block
  int64_t block = 0, blocks = 0;  // queries of a block; blocks of a batch row and group
  int64_t pitch = 0;
  int64_t terms = 1;           // that a lane of an operand holds of a sum: in bfloat16 two, a pair
  int64_t position_pitch = 0;  // of a tile in pairs of positions or of queries; in float pitch
  // Weights mixing needs the normalisers of all heads before it can begin: keep_rows holds a block's whole rows
  // meanwhile, in a cache as far as they fit; without it the tiles are computed twice.
  bool keep_rows = false;
  int64_t kept_chunks = 1;  // of a block's rows: all, or those that a window reaches
  // A few queries (decoding): K, and forward V, are read once, in place, as packing them would cost more than using
  // them. Backward reads K in place too, so that the logits are the same to the last bit. Pairs of bfloat16 are packed.
  bool in_place = false;
  // What is computed in matrix tiles (kernels/gemm/amx.h): the products of queries, keys and values, if d_k and d_v are
  // multiples of 16, which have EqualParts; the sums over queries, if a tile has 32 or 64; mixings of pairs, if the
  // numbers of heads have EqualParts.
  bool on_tiles = false, sums_on_tiles = false, mixes_on_tiles = false;
  int64_t query_group = kQueryGroup;  // queries that a product takes together, of which rows is a multiple

  // Lanes that hold `count` terms of a sum.
  int64_t Lanes(int64_t count) const { return CeilDivide(count, terms); }
  // Lanes that hold a side's heads in, and, for the gradient, its heads out: those of logits are float forward, and all
  // beside convolutions.
  int64_t MixingLanes(MixingSide side) const {
    return side == kLogits || shape.Convolves() ? mixings[side].in : Lanes(mixings[side].in);
  }
  int64_t MixingLanesBack(MixingSide side) const {
    return shape.Convolves() ? mixings[side].out : Lanes(mixings[side].out);
  }
  // Heads of the group that a side's convolution reads.
  int64_t FilterHeads(MixingSide side) const { return side == kLogits ? h_k : h; }
  int64_t TileFloats(int64_t heads) const { return heads * pitch; }
  // Lanes of a tile that a mixing reads, and of one that a sum over positions or queries reads.
  int64_t HeadLanes(int64_t heads) const { return Lanes(heads) * pitch; }
  int64_t PositionLanes(int64_t heads) const { return heads * position_pitch; }
  int64_t Distances() const;  // length of a head's relative position bias, padded: index j - i + n_padded - 1
  // The same of one block, whose first query is i_0: index j - i + i_0 + block - 1.
  int64_t BlockDistances() const { return RoundUp<int64_t>(block + m_padded(), kMaxLanes); }
  int64_t n_padded() const { return RoundUp(shape.n, block); }
  int64_t m_padded() const { return chunks * kChunk; }
};

// Throws a usage error unless logits are kept only where they may be.
void CheckSoftmaxStats(const AttentionShape& shape, const SoftmaxStats& stats);

// A bump allocator: hands out aligned pieces of the workspace; over a null base it only counts.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<char*>(base)) {}
  float* Floats(int64_t count) { return static_cast<float*>(Bytes(count * static_cast<int64_t>(sizeof(float)))); }
  template <class PairOf>
  PairOf* Pairs(int64_t count) {
    return Lanes<PairOf>(Floats(count)).pairs();
  }
  uint8_t* Flags(int64_t count) { return static_cast<uint8_t*>(Bytes(count)); }
  size_t used() const { return used_; }

 private:
  void* Bytes(int64_t bytes) {
    void* piece = base_ == nullptr ? nullptr : base_ + used_;
    // A vector of slack after each piece: packing writes whole vectors. An odd number of lines keeps pieces apart.
    used_ += static_cast<size_t>(RoundUp<int64_t>(bytes + 64, 64) | 64);
    return piece;
  }
  char* base_;
  size_t used_ = 0;
};

// The first batch rows, so many, are one thread's each, from packing their memory to their last task: what it packs and
// sums up stays in its cache. The others' tasks are shared out.
inline int64_t OwnRows(int64_t rows, int threads) {
  constexpr int64_t kLeastOwn = 4;  // with fewer the threads' last rows would end far apart
  return rows >= kLeastOwn * threads ? rows / threads * threads : 0;
}

// Where a batch row's memory is packed, and its gradients summed up: a thread's own rows take turns at one place, each
// other row has one of its own.
struct Places {
  Places(int64_t batch_rows, int64_t own, int threads) : rows(batch_rows), own_rows(own), slots(threads) {}
  int64_t count() const { return own_rows == 0 ? rows : slots + rows - own_rows; }
  // `slot`: the thread's, from 0 on.
  int64_t Of(int64_t b, int slot) const { return b < own_rows ? slot : b + count() - rows; }

  int64_t rows, own_rows, slots;
};
// From one place to the next in an array of so many floats a place. A page and a line between them keep a core's
// prefetchers out of what another writes.
inline constexpr int64_t PlaceStride(int64_t floats) { return floats + 1024 + 16; }

// Shared read-only operands, packed once per call. MemoryTile (pack-inl.h) finds the tiles of
// [place][group][chunk]; groups and g_k, g_v are those of MemoryHeads. In bfloat16 the dimension of pairs is half as
// long; the mixings of logits are float.
struct PackedMemory {
  PackedMemory(const AttentionPlan& plan, AttentionPass pass, int64_t places, Arena& arena);
  // The same from a place on: a batch row's alone.
  PackedMemory From(const AttentionPlan& plan, int64_t place) const;

  Lanes<SizePair> K_by_position;  // [place][group][chunk][g_k][d_k][kChunk]; unless read in place
  Lanes<PositionPair> V_by_size;  // [place][group][chunk][g_v][kChunk][d_v_padded]; forward, unless read in place
  Lanes<PositionPair> K_by_size;  // [place][group][chunk][g_k][kChunk][d_k_padded]; backward
  Lanes<SizePair> V_by_position;  // [place][group][chunk][g_v][d_v][kChunk]; backward
  // By MixingSide, where the side has such mixings; P packed for MixHeads.
  Lanes<HeadPair> P[2];            // [in][out]; static mixing only, like its transpose
  Lanes<HeadPair> P_back[2];       // [out][in]
  Lanes<HeadPair> R_M[2];          // [place][chunk][in][out][kChunk]
  Lanes<HeadPair> R_M_back[2];     // [place][chunk][out][in][kChunk]; backward, in bfloat16
  float* F_M[2] = {};              // [place][chunk][5][h][kChunk], float
  float* taps[2] = {};             // [head][c_q][c_k] of each convolution, all heads
  float* taps_back[2] = {};        // the same turned round both ways; backward
  float* mask = nullptr;           // [place][m_padded]: 0, or kMaskedLogit
  uint8_t* chunk_state = nullptr;  // [place][chunk]: ChunkState
  float* distance_bias = nullptr;  // [h][Distances()]: the relative position bias

 private:
  // use(array, whether the pass has it, its floats for a place) of each array that has places.
  template <class Use>
  void ForEachOfPlaces(const AttentionPlan& plan, AttentionPass pass, const Use& use);
};

enum ChunkState : uint8_t { kChunkOpen = 0, kChunkPartlyMasked = 1, kChunkMasked = 2 };

// The two passes of the fused attention, on the SIMD target in use, by what multiplies their operands: in float; in
// pairs of bfloat16 that are widened to float; and in dot products of such pairs, where the target has the instruction.

struct ForwardPass {
  const AttentionPlan& plan;
  const AttentionCall& call;
  const Rows& O;
  const SoftmaxStats& stats;
  void* workspace;
  int threads;
};
struct BackwardPass {
  const AttentionPlan& plan;
  const AttentionCall& call;
  const ConstRows& O;
  const SoftmaxStats& stats;
  const ConstRows& dO;
  const AttentionGradients& out;
  void* workspace;
  int threads;
};
struct AttentionPasses {
  void (*forward)(const ForwardPass& pass);
  void (*backward)(const BackwardPass& pass);
};
AttentionPasses PassesInFloat();
AttentionPasses PassesInWidenedPairs();
AttentionPasses PassesInDotProducts();

// One static head mixing alone, on a tile that stays in the cache: the fused attention's own loops without what
// surrounds them there, so that their speed and their results can be looked at by themselves.

// `plan` is of a shape that has P_l[h_k, h] and at least as many queries as a tile has rows. It says how tiles lie:
// element (head k, query q, position j) at k · plan.pitch + q · kChunk + j. All arrays are aligned to 64 bytes.

// P_l[h_k, h], and its transpose, in the order in which the loops read them: h_k·h floats.
void PackHeadMixing(const AttentionPlan& plan, const float* P_l, float* packed);
void PackHeadMixingTransposed(const AttentionPlan& plan, const float* P_l, float* packed);

// L[h] = J[h_k]·P_l, both tiles.
void MixTileHeads(const AttentionPlan& plan, const float* packed, const float* J, float* L);

// dJ[h_k] = dL[h]·P_lᵀ, and dP_l[h_k, h] += J·dL, still in partial sums: dP_l[h_k, h, kPartialSums].
void MixTileHeadsBackward(const AttentionPlan& plan, const float* packed_transposed, const float* J, const float* dL,
                          float* dJ, float* dP_l);

}  // namespace crosstalk::kernels
