// Scopes of the thread that runs ops: whether they are recorded, and which layer of the model they belong to.
#pragma once

#include <string>

#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// While one lives, ops on this thread record nothing.
class NoGradScope {
 public:
  NoGradScope();
  ~NoGradScope();
  NoGradScope(const NoGradScope&) = delete;

 private:
  bool before_;
};
bool GradEnabled();

// Names the part of the model that the ops made while it lives belong to ("encoder.block_3.attention"), so that a
// non-finite value can be traced to the layer that first produced it. Nests: names are joined by dots.
class LayerScope {
 public:
  explicit LayerScope(const std::string& name);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;

 private:
  std::string name_;  // the whole dotted one
  const std::string* before_;
};
const std::string& CurrentLayer();

namespace internal {

// Records again, inside a NoGradScope: for a gradient that computes its op's inside once more.
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;

 private:
  bool before_;
};

// Sets the whole dotted name, where LayerScope would append.
class AbsoluteLayerScope {
 public:
  explicit AbsoluteLayerScope(std::string name);
  ~AbsoluteLayerScope();
  AbsoluteLayerScope(const AbsoluteLayerScope&) = delete;

 private:
  std::string name_;
  const std::string* before_;
};

// Set when an op ran with recording off although an input requires a gradient.
bool& SkippedRecording();

}  // namespace internal
}  // namespace crosstalk
