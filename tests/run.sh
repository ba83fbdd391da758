#!/bin/sh
# run.sh BUILD [JOBS]: runs every test program under BUILD/tests, JOBS at a time, and shows the whole output of those
# that fail. Ends with the line "N passed, N failed[, N skipped]", summed over the programs, and status 1 if any
# failed. A program that dies counts as one failure.
set -u
build=$1
jobs=${2:-2}
results=$build/test-results
rm -rf "$results"
mkdir -p "$results"
CROSSTALK_BINARY=$(cd "$build" && pwd)/crosstalk
CROSSTALK_SOURCE=$(pwd)
CROSSTALK_BUILD=$(cd "$build" && pwd)
# Several programs share the processors here: threads that wait should sleep, not spin.
OMP_WAIT_POLICY=passive
export CROSSTALK_BINARY CROSSTALK_SOURCE CROSSTALK_BUILD OMP_WAIT_POLICY

find "$build/tests" -type f -name '*_test' | sort > "$results/programs"
run_one='
  program=$1; results=$2; build=$3
  name=${program#"$build"/tests/}
  log=$results/$(printf %s "$name" | tr / .)
  if "$program" --gtest_color=no > "$log.log" 2>&1; then status=ok; else status=FAILED; fi
  passed=$(sed -n "s/^\[  PASSED  \] \([0-9]*\) tests*\..*/\1/p" "$log.log" | tail -n 1)
  skipped=$(sed -n "s/^\[  SKIPPED \] \([0-9]*\) tests*, listed.*/\1/p" "$log.log" | tail -n 1)
  failed=$(sed -n "s/^\[  FAILED  \] \([0-9]*\) tests*, listed.*/\1/p" "$log.log" | tail -n 1)
  if [ $status = FAILED ] && [ -z "$failed" ]; then failed=1; fi
  echo "${passed:-0} ${failed:-0} ${skipped:-0}" > "$log.count"
  [ $status = ok ] || { cat "$log.log"; }
  printf "%-6s %s: %s passed, %s failed\n" $status "$name" "${passed:-0}" "${failed:-0}"
'
xargs -P "$jobs" -I '{}' sh -c "$run_one" sh '{}' "$results" "$build" < "$results/programs"
cat "$results"/*.count 2>/dev/null | awk '
  { passed += $1; failed += $2; skipped += $3 }
  END {
    if (NR == 0) { print "no test programs were found"; failed = 1 }
    printf "%d passed, %d failed", passed, failed
    if (skipped > 0) printf ", %d skipped", skipped
    printf "\n"
    exit failed > 0
  }'
