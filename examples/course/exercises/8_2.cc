// Exercise 8.2 (1 point): what a position takes.
//
// How many numbers does the cache of a layer keep of one position? Talking heads: its key and its value, of all heads.
// With dynamic projections of the memory, P_Ml and P_Mw, the matrices that they make of it as well:
//
//   K[h_k, d_k]     V[h_v, d_v]     R_Ml[h_k, h]     R_Mw[h, h_v]
#include "examples/course/checker/exercise.h"

using namespace course;

// sizes.h_k, .h, .h_v, .d_k, .d_v; dynamic: whether the layer has P_Ml and P_Mw
static int64_t NumbersOfAPosition(const LayerSizes& sizes, bool dynamic) { throw Unsolved("8.2"); }

EXERCISE(8_2, NumbersOfAPosition);
