#!/bin/sh
# write_cases.sh: on standard output, all files of exercises that course_test.cc checks, each in a namespace of its own:
# the solutions, the stubs, and each solution with a slip, as slips.txt has them. Fails where a slip's text is not in the
# solution. Run from the root.
set -eu
number=0
# First what all include: inside a namespace it would be another's.
echo '#include "examples/course/checker/library_exercise.h"'
echo '#pragma GCC diagnostic ignored "-Wunused-parameter"'
echo '#pragma GCC diagnostic ignored "-Wunused-function"'
echo '#pragma GCC diagnostic ignored "-Wunused-variable"'
echo '#pragma GCC diagnostic ignored "-Wunused-but-set-variable"'
for file in examples/course/solutions/*.cc examples/course/exercises/*.cc; do
  number=$((number + 1))
  printf 'namespace case_%d {\n#include "%s"\n}\n' "$number" "$file"
done
# EXERCISE | SLIP | TEXT => ANOTHER [| TEXT => ANOTHER …]: every TEXT of the solution becomes ANOTHER.
grep -v '^#' examples/course/checker/slips.txt | awk -F ' [|] ' '
  NF {
    file = "examples/course/solutions/" $1 ".cc"
    gsub(/\./, "_", file)
    sub(/_cc$/, ".cc", file)
    text = ""
    while ((getline line < file) > 0) text = text line "\n"
    close(file)
    for (i = 3; i <= NF; ++i) {
      change = $i
      sub(/ =>$/, " => ", change)
      at = index(change, " => ")
      old = substr(change, 1, at - 1)
      put = substr(change, at + 4)
      rest = text
      text = ""
      found = 0
      while (at > 1 && (place = index(rest, old)) > 0) {
        text = text substr(rest, 1, place - 1) put
        rest = substr(rest, place + length(old))
        found = 1
      }
      if (!found) { print "slips.txt: " file " has no \"" old "\"" > "/dev/stderr"; exit 1 }
      text = text rest
    }
    printf "namespace slip_%d {\n#line 1 \"slips/%s/%s\"\n%s}\n", NR, $1, $2, text
  }'
