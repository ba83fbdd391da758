#!/bin/sh
# check_build_time.sh BUILD: builds the command in BUILD from scratch, and again after a change of
# nn/attention/config.h, without a cache, and from scratch with g++-14 where it is installed. Fails where one of these
# takes more CPU time than its limit. The unit is the CPU time that the same compiler takes for a fixed piece of work
# before and after, so that the machine and its load cancel out. BUILD keeps the objects for other goals.
set -eu
build=$1
export CCACHE_DISABLE=1
# In pieces, of 12 CPU seconds on a Zen 5 core: from scratch takes 35 there, after the change 14.
scratch_limit=40 scratch_limit_of_14=50 change_limit=16
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
jobs=$(nproc 2> /dev/null || echo 2)
[ "$jobs" -le 4 ] || jobs=4
bad=0

cat > "$folder/piece.cc" << 'END'
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <vector>
template <int kN>
double Piece(std::vector<double>& values, std::map<int, std::string>& names) {
  std::function<double(double)> step = [&](double x) { return x * kN + static_cast<double>(names.size()); };
  std::sort(values.begin(), values.end(), [](double a, double b) { return a * kN < b; });
  for (double& value : values) value = step(value) + kN;
  names[kN] = std::to_string(values.size() + kN);
  if constexpr (kN > 0) return Piece<kN - 1>(values, names) + values[kN];
  return 0;
}
double Work(std::vector<double>& values, std::map<int, std::string>& names) {
  return std::regex_match(names[0], std::regex("a*")) ? Piece<60>(values, names) : 0;
}
END

hundredths() {  # sets `now` to the CPU time of all processes that this one has waited for
  times > "$folder/times"  # not in a subshell, which has waited for none
  now=$(awk 'NR == 2 { gsub(/[ms]/, " "); printf "%.0f", 100 * (60 * ($1 + $3) + $2 + $4) }' "$folder/times")
}

take() {  # take COMMAND…: sets `taken` to its CPU time in hundredths of a second
  hundredths
  begin=$now
  "$@"
  hundredths
  taken=$((now - begin))
}

pieces() {  # pieces COMPILER: the piece once for each processor, at the same time
  processes=
  for i in $(seq "$jobs"); do
    "$1" -std=c++20 -O2 -c "$folder/piece.cc" -o "$folder/$i.o" &
    processes="$processes $!"
  done
  for process in $processes; do wait "$process"; done
}

# The machine's noise is some 5 %: what is above its limit is measured once more.
measure() {  # measure WHAT LIMIT COMPILER COMMAND…: the piece must have been taken before
  what=$1 limit=$2 compiler=$3
  shift 3
  for attempt in 1 2; do
    before=$taken
    take "$@"
    time=$taken
    take pieces "$compiler"
    tenths=$((time * 20 * jobs / (before + taken)))
    echo "build time: $what: $((time / 100)) CPU seconds, $((tenths / 10)).$((tenths % 10)) times the fixed piece's (limit $limit)"
    [ "$tenths" -gt $((limit * 10)) ] || return 0
  done
  echo "build time: $what takes more than its limit in tools/make/check_build_time.sh; CXXFLAGS='-O2 -ftime-report' shows where" >&2
  bad=1
}

from_scratch() {
  for layer in runtime kernels autograd nn models tools; do rm -rf "$build/objects/$layer"; done
  make BUILD="$build" "$build/crosstalk"
}

after_change() {
  touch nn/attention/config.h
  make BUILD="$build" "$build/crosstalk"
}

from_scratch_with_14() {
  rm -rf "$build-14"
  make BUILD="$build-14" CXX=g++-14 "$build-14/crosstalk"
}

compiler=${CXX:-g++}
take pieces "$compiler"
measure "from scratch" $scratch_limit "$compiler" from_scratch
measure "after a change of nn/attention/config.h" $change_limit "$compiler" after_change
if command -v g++-14 > /dev/null; then
  take pieces g++-14
  measure "from scratch with g++-14" $scratch_limit_of_14 g++-14 from_scratch_with_14
  rm -rf "$build-14"
fi
exit $bad
