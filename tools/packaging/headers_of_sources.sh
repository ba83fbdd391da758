#!/bin/sh
# headers_of_sources.sh FOLDER…: prints each header FILE.h that FILE.cc includes before anything else.
find "$@" -name '*.cc' -exec awk '
  /^#include/ {
    header = FILENAME
    sub(/cc$/, "h", header)
    included = $2
    gsub(/"/, "", included)
    sub(/^crosstalk\//, "", included)
    if (included == header) print header
    nextfile
  }' {} +
