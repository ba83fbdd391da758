// Batches made ahead on a thread of their own, so that a step does not wait for its text.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Makes the batches that will be asked for next up to `depth` ahead on one thread: those parts of a step, ascending, in
// order, and steps in order. The same bits as `source`; any order of calls is right, in order is fast. An exception in
// the thread is rethrown by the Get it belongs to. The destructor waits for the batch in hand. Where the system has no
// thread to give, nothing is made ahead.
std::unique_ptr<BatchSource> MakePrefetchingBatches(std::unique_ptr<BatchSource> source, std::vector<int64_t> parts,
                                                    int64_t depth = 4);

}  // namespace crosstalk
