#!/bin/sh
# run.sh BUILD JOBS NAME…: runs the test programs BUILD/tests/NAME, JOBS at a time, those first that took longest last
# time (or that tests/slowest.txt names), and shows the whole output of those that fail. Ends with the ten slowest and
# the line "N passed, N failed[, N skipped]", summed over the programs, and status 1 if any failed. A program that dies
# counts as one failure. CROSSTALK_EMULATOR, where it is set, starts programs of another processor, and the command is
# BUILD/emulated/crosstalk, which starts it so.
set -u
build=$1
jobs=$2
shift 2
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
CROSSTALK_BINARY=$(cd "$build" && pwd)${CROSSTALK_EMULATOR:+/emulated}/crosstalk
CROSSTALK_SOURCE=$(pwd)
CROSSTALK_BUILD=$(cd "$build" && pwd)
# Several programs share the processors here: threads that wait should sleep, not spin.
OMP_WAIT_POLICY=passive
export CROSSTALK_BINARY CROSSTALK_SOURCE CROSSTALK_BUILD OMP_WAIT_POLICY

times=$build/test-times  # lines of "SECONDS NAME"
[ -s "$times" ] || times=tests/slowest.txt
printf '%s\n' "$@" | awk 'NR == FNR { seconds[$2] = $1; next } { print seconds[$1] + 0, $1 }' "$times" - |
  sort -k1,1rn -k2 | cut -d' ' -f2 > "$results/names"
run_one='
  name=$1; results=$2; build=$3
  log=$results/$(printf %s "$name" | tr / .)
  start=$(date +%s.%N)
  if ${CROSSTALK_EMULATOR:-} "$build/tests/$name" --gtest_color=no > "$log.log" 2>&1; then status=ok; else status=FAILED; fi
  seconds=$(echo "$start $(date +%s.%N)" | awk "{ printf \"%.1f\", \$2 - \$1 }")
  passed=$(sed -n "s/^\[  PASSED  \] \([0-9]*\) tests*\..*/\1/p" "$log.log" | tail -n 1)
  skipped=$(sed -n "s/^\[  SKIPPED \] \([0-9]*\) tests*, listed.*/\1/p" "$log.log" | tail -n 1)
  failed=$(sed -n "s/^\[  FAILED  \] \([0-9]*\) tests*, listed.*/\1/p" "$log.log" | tail -n 1)
  if [ $status = FAILED ] && [ -z "$failed" ]; then failed=1; fi
  echo "${passed:-0} ${failed:-0} ${skipped:-0}" > "$log.count"
  echo "$seconds $name" > "$log.time"
  [ $status = ok ] || cat "$log.log"
  printf "%-6s %s: %s passed, %s failed\n" $status "$name" "${passed:-0}" "${failed:-0}"
'
xargs -P "$jobs" -I '{}' sh -c "$run_one" sh '{}' "$results" "$build" < "$results/names"

# A program that is not run now keeps its last time.
[ -f "$build/test-times" ] || : > "$build/test-times"
cat "$results"/*.time 2>/dev/null | cat "$build/test-times" - | awk '{ seconds[$2] = $1 }
  END { for (name in seconds) print seconds[name], name }' | sort -rn > "$results/times"
mv "$results/times" "$build/test-times"
if [ $# -gt 10 ]; then
  echo "the slowest, in seconds:"
  cat "$results"/*.time | sort -rn | head -n 10 | sed 's/^/  /'
fi
cat "$results"/*.count 2>/dev/null | awk '
  { passed += $1; failed += $2; skipped += $3 }
  END {
    if (NR == 0) { print "no test programs were found"; failed = 1 }
    printf "%d passed, %d failed", passed, failed
    if (skipped > 0) printf ", %d skipped", skipped
    printf "\n"
    exit failed > 0
  }'
