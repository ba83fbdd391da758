#!/bin/sh
# public_headers.sh: lists the public headers, one path a line: models/crosstalk.h, and all that it includes, directly
# or by way of others. They are installed, and the shared library exports what they declare; nothing else.
set -eu
list=$(awk '
  function visit(file,   line, parts) {
    if (file in seen) return
    seen[file] = 1
    print file
    while ((status = (getline line < file)) > 0) {
      if (split(line, parts, "\"") > 1 && line ~ /^ *# *include "crosstalk\//) visit(substr(parts[2], 11))
    }
    if (status < 0) {
      print "public_headers.sh: cannot read " file > "/dev/stderr"
      exit 1
    }
    close(file)
  }
  BEGIN { visit("models/crosstalk.h") }')
printf '%s\n' "$list" | LC_ALL=C sort
