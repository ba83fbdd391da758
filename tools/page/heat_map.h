// Heat maps of a page: a matrix as an image whose cells are the more opaque the larger they are, and of two colours
// where they may be negative.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/models/inspection/attention_maps.h"

namespace crosstalk {

struct HeatMapOptions {
  std::string title;
  // Empty: numbers from 1. Of many only some are written beside the map; all are read under the pointer.
  std::vector<std::string> row_labels, column_labels;
  std::string row_name = "row", column_name = "column";  // what is numbered: "head of keys"
  // Values from -most to most in two colours; else from 0 to most in one, and what is below 0 is nothing.
  bool diverging = false;
  double most = 0;         // 0: the largest |value|
  double cell_pixels = 0;  // 0: by the number of cells
  // Up to so many cells the exact values stand in the page, under the pointer and as a table; of more the page knows
  // them to two digits.
  int64_t most_exact = 1024;
};

// <figure> of values[rows, columns]. Values that are not finite are shown as 0 and named in the caption. A map takes
// about 1.4 bytes a cell and 1.6 kB, and to most_exact cells about 50 bytes more a cell.
std::string HeatMap(const HeatMapOptions& options, int64_t rows, int64_t columns, std::span<const float> values);

// Attention maps as sections of a page: the values in the file, drawn by the page's script, one layer at a time with a
// small map for each head and a large one of the head that is chosen.

struct MapsOptions {
  int64_t most_heads = 64;  // of a layer: of more, the first ones are shown
  // Of all values together, in the page: where all of J, L, W and U do not fit, J is left out, then L, then heads
  // above the 16th.
  int64_t most_bytes = 4'500'000;
  // What is shown first: a head of the layer that holds these parameters (LayerMap::module).
  std::string first_module = {};
  int64_t first_head = 0;
};

struct MapsSection {
  std::string html;  // for Page::AddSection
  // What of the maps is not in it, and how to get it: for the page and the user.
  std::vector<std::string> left_out;
};

MapsSection DrawMaps(const AttentionMaps& maps, const MapsOptions& options);

// The tokens that the model reads, as HTML.
std::string TokenLists(const AttentionMaps& maps);

}  // namespace crosstalk
