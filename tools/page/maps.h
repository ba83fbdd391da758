// Attention maps as sections of a page: the values in the file, drawn by the page's script, one layer at a time with a
// small map for each head and a large one of the head that is chosen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/models/inspection/attention_maps.h"

namespace crosstalk {

struct MapsOptions {
  int64_t most_heads = 64;  // of a layer, the first ones
  // All values together in the page: where J, L, W and U do not fit, J is left out, then L, then heads above the 16th.
  int64_t most_bytes = 4'500'000;
  // What is shown first: a head of the layer that holds these parameters (LayerMap::module).
  std::string first_module = {};
  int64_t first_head = 0;
};

struct MapsSection {
  std::string html;  // for Page::AddSection
  // What is missing from it, and how to get it: for the page and the user.
  std::vector<std::string> left_out;
};

MapsSection DrawMaps(const AttentionMaps& maps, const MapsOptions& options);

// The tokens that the model reads, as HTML.
std::string TokenLists(const AttentionMaps& maps);

}  // namespace crosstalk
