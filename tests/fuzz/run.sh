#!/bin/sh
# run.sh BUILD SECONDS TARGET…: runs BUILD/fuzz/TARGET for so many seconds each, from the inputs of
# tests/fuzz/corpus/TARGET and those that earlier runs have added to BUILD/fuzz-corpus/TARGET. An input that breaks a
# promise is kept in BUILD/fuzz-findings, and its path and how to replay it are printed. Status 1 if there was one.
# A target's dictionary: the quoted words of its kept inputs, the options by either of their names, numbers and marks
# that readers know, and what tests/fuzz/TARGET.dict adds.
set -u
build=$1
seconds=$2
shift 2
if [ -d /dev/shm ] && [ -w /dev/shm ]; then memory=/dev/shm; else memory=${TMPDIR:-/tmp}; fi
TMPDIR=$(mktemp -d "$memory/crosstalk-fuzz-XXXXXX") || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$build/fuzz-findings"
bad=0
options=$(grep -rhoE 'Make(Field|Option)\("[a-z0-9_-]+' --include=*.cc --include=*.h models tools | sed 's/.*"-*//' | tr _ - | sort -u)
marks='null true [] {} -1 0.5 1e300 4294967296 1099511627776 18446744073709551615 \x09 \x0A \x1C \xFF0 \xFF1 \xFF2 \xFF3'
for target in "$@"; do
  kept=$build/fuzz-corpus/$target
  log=$build/fuzz-$target.log
  dictionary=$TMPDIR/$target.dict
  mkdir -p "$kept"
  {
    LC_ALL=C grep -aoh '"[]@<#[A-Za-z0-9_./>-]\{2,40\}"' tests/fuzz/corpus/"$target"/* | sort -u | sed 's/"\(.*\)"/"\\"\1\\""/'
    case $target in command_line | config | run_folder)
      printf '"--%s"\n' $options
      printf '%s\n' "$options" | tr - _ | sed 's/.*/"\\"&\\":"/' ;;
    esac
    printf '"%s"\n' $marks
    cat "tests/fuzz/$target.dict" 2> /dev/null
  } > "$dictionary"
  # An input of some kilobytes may not take 10 s, 512 MB at once or 2 GB in all.
  OMP_WAIT_POLICY=passive "$build/fuzz/$target" -max_total_time="$seconds" -timeout=10 -malloc_limit_mb=512 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$build/fuzz-findings/$target-" \
    -dict="$dictionary" "$kept" "tests/fuzz/corpus/$target" > "$log" 2>&1
  status=$?
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  edges=$(sed -n 's/^#.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  speed=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  echo "$target: ${inputs:-0} inputs, ${speed:-0} a second, ${edges:-0} edges"
  [ $status = 0 ] && continue
  bad=1
  finding=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  grep -aE '^  what\(\):|ERROR: |runtime error: | in crosstalk::' "$log" | grep -v 'fuzz::Require' | cut -c 1-300 | head -n 8
  echo "$target: a finding: ${finding:-none was written}; the whole report: $log"
  echo "  replay it: $build/fuzz/$target ${finding:-}"
done
exit $bad
