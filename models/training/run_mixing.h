// The head projections of a run: as it began and as it stands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/training/trained_model.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Those of one model, and which that is: "initial values of seed 1", "step 2000".
struct MixingState {
  std::string label;
  std::vector<LayerMixing> layers;
};

struct RunMixing {
  // The initial values are a function of configuration and seed, and are recomputed. A run that began with another's
  // weights has them from its checkpoint of step 0, or from the origin, where one of these still is there.
  std::optional<MixingState> initial;
  std::string no_initial;  // why there is none, or ""
  MixingState current;     // of the newest good checkpoint
  // Why the dynamic projections were not measured on held-out text, or "".
  std::string not_measured;
  Precision measured_in = Precision::kFloat32;
};

// Of the run in a folder, whose newest good checkpoint is `newest`; the sizes of the dynamic projections are those of
// its first held-out batch, in the precision of newest.model. `held_out`: the run's held-out text, where it is open
// already. most_cubes: of each state, as of MixingOf.
RunMixing MixingOfRun(const std::string& run_folder, const TrainedModel& newest,
                      std::shared_ptr<const TextSource> held_out = nullptr, int64_t most_cubes = kAllCubes);

}  // namespace crosstalk
