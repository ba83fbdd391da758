#!/bin/sh
# draw_layers.sh models|tools: the includes between the rooms of models/ or tools/ as an SVG on standard output, from the
# sources; `make graph` writes docs/images/models.svg and tools.svg. The rooms stand in the order of check_layers.sh, and a
# line goes from a room up to each that it includes.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$1
order=$(sed -n "s/^${top%s}_layers=\"\(.*\)\"$/\1/p" tools/make/check_layers.sh)
find "$top" -name '*.h' -o -name '*.cc' | grep -v -x -e models/crosstalk.h -e tools/crosstalk.cc | sort |
  xargs grep -E -H "^#include \"(crosstalk/)?$top/" |
  awk -v order="$order" -v top="$top" '
    function layer(path) {  # of a path below the top folder
      if (path ~ /^registry\./) return "registry"
      if (path ~ /^training\/objectives\//) return "objectives"
      if (path !~ /\//) return "model"
      sub(/\/.*/, "", path)
      return path
    }
    {
      split($0, part, ":")
      from = part[1]
      sub("^" top "/", "", from)
      to = $0
      sub(".*\"(crosstalk/)?" top "/", "", to)
      from = layer(from)
      to = layer(to)
      if (from != to) edge[from, to] = 1
    }
    END {
      count = split(order, name, " ")
      step = 44
      width = 450
      height = count * step + 12
      printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" ", width, height, width, height
      printf "role=\"img\" aria-label=\"Includes between the rooms of %s\">\n", top
      print "<style>text{font:14px sans-serif;fill:#222}rect{fill:#eef3fb;stroke:#4a6fa5}circle{fill:#4a6fa5}path{fill:none;stroke:#4a6fa5;stroke-opacity:.55}"
      print "@media(prefers-color-scheme:dark){text{fill:#ddd}rect{fill:#1d2a3f;stroke:#7ea6e0}path{stroke:#7ea6e0}circle{fill:#7ea6e0}}</style>"
      for (i = 1; i <= count; ++i) {
        for (j = 1; j < i; ++j) {
          if (!((name[i], name[j]) in edge)) continue
          from_y = (i - 1) * step + 20
          to_y = (j - 1) * step + 28
          bend = 150 + 32 * (i - j)
          printf "<path d=\"M130 %d C%d %d %d %d 130 %d\"/><circle cx=\"133\" cy=\"%d\" r=\"2.5\"/>\n", from_y, bend, from_y, bend, to_y, to_y, to_y
        }
      }
      for (i = 1; i <= count; ++i) {
        y = (i - 1) * step + 8
        printf "<rect x=\"10\" y=\"%d\" width=\"120\" height=\"30\" rx=\"5\"/><text x=\"70\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", y, y + 20, name[i]
      }
      print "</svg>"
    }'
