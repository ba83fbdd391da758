#!/bin/sh
# run.sh BUILD: the tests that need mpirun, on this machine. Ends with the line "N passed, N failed", and status 1 if
# any failed.
set -u
build=$1
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Root and more ranks than cores are fine here; ranks are not bound to a core; containers may refuse to copy between
# processes.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
ranks() {  # ranks N COMMAND…: runs it on N ranks for at most 120 s; its output is then in $log, its status in $status
  number=$1
  shift
  timeout -k 5 120 mpirun --oversubscribe --bind-to none -np "$number" "$@" > "$log" 2>&1
  status=$?
}

result() {  # result NAME: passed if the last command succeeded; else shows the log
  if [ $? = 0 ]; then
    passed=$((passed + 1))
    echo "ok     $1"
  else
    failed=$((failed + 1))
    cat "$log"
    echo "FAILED $1 (status $status)"
  fi
}

now() { date +%s; }
all_gone() {  # within 5 s no process of the last ranks, whose output has lines "pid N", is left
  for pid in $(sed -n 's/^pid //p' "$log"); do
    tries=0
    while kill -0 "$pid" 2> /dev/null; do
      tries=$((tries + 1))
      [ $tries -le 50 ] || { echo "process $pid is left" >> "$log"; return 1; }
      sleep 0.1
    done
  done
  [ "$(grep -c '^pid ' "$log")" = 3 ]
}
said() { grep -q -- "$1" "$log"; }

measured() {  # measured NAME: prints the numbers of the log
  sed -n -e "s/^ *[0-9]* bytes there and back/  $1: &/p" -e "s/^64 MB out and in/  $1: &/p" "$log"
}

check=$build/mpi/transport_check

ranks 3 "$check" messages
[ $status = 0 ]
result "messages between 3 ranks"
measured "3 ranks"
ranks 2 "$check" messages
[ $status = 0 ]
result "messages between 2 ranks"
measured "2 ranks"
ranks 2 env OMPI_MCA_btl=self,tcp "$check" messages
[ $status = 0 ]
result "messages between 2 ranks over TCP"
measured "2 ranks, TCP"
ranks 2 "$check" idle
[ $status = 0 ]
result "what the plug-in takes of a core"
sed -n 's/^share of a core/  &/p' "$log"

start=$(now)
ranks 3 "$check" stop
[ $status = 1 ] && [ $(($(now) - start)) -le 15 ] &&
  said 'crosstalk: rank 2 (.*) has said nothing for 2 s; ending all ranks' && all_gone
result "a rank that is stopped ends all"
start=$(now)
ranks 3 "$check" stop-first
[ $status = 1 ] && [ $(($(now) - start)) -le 15 ] &&
  said 'crosstalk: rank 0 (.*) has said nothing for 2 s; ending all ranks' && all_gone
result "rank 0, stopped, ends all"
start=$(now)
ranks 3 "$check" kill
[ $status = 137 ] && [ $(($(now) - start)) -le 10 ] && all_gone
result "a rank that is killed ends all"
ranks 3 "$check" abort
[ $status = 4 ] && all_gone
result "a rank that aborts ends all with its exit code"
ranks 3 "$check" leave
[ $status = 0 ] && [ "$(grep -c 'error: MPI: rank 2 (.*) has ended' "$log")" = 2 ] && all_gone
result "a wait for a rank that has ended is an error"
ranks 3 "$check" late
[ $status = 1 ] && [ "$(grep -c 'error: MPI: rank 2 (.*) has ended' "$log")" -ge 1 ] && all_gone
result "so is a message for a rank that has ended"
ranks 3 "$check" untidy
[ $status = 1 ] && said 'crosstalk: rank 2 (.*) ends while messages are under way' && all_gone
result "a rank that ends with messages under way ends all"

# All at once, for twice the time-out: none has been silent while the others listened.
timeout -k 5 60 mpirun --oversubscribe --bind-to none -np 3 "$check" suspend > "$log" 2>&1 &
mpirun=$!
while [ "$(grep -c '^pid ' "$log")" -lt 3 ] && kill -0 $mpirun 2> /dev/null; do sleep 0.1; done
sleep 1
pids=$(sed -n 's/^pid //p' "$log")
kill -STOP $pids
sleep 4
kill -CONT $pids
wait $mpirun
status=$?
[ $status = 0 ] && all_gone
result "ranks that were all suspended go on"

# Without its mpirun a rank ends too.
mpirun --oversubscribe --bind-to none -np 3 "$check" suspend > "$log" 2>&1 &
mpirun=$!
while [ "$(grep -c '^pid ' "$log")" -lt 3 ] && kill -0 $mpirun 2> /dev/null; do sleep 0.1; done
kill -KILL $mpirun
wait $mpirun 2> /dev/null
status=$?
all_gone
result "ranks whose mpirun is killed end"

# The library is looked for beside the program.
lonely=$(mktemp -d)
cp "$check" "$lonely/check"
ranks 2 "$lonely/check" messages
[ $status = 2 ] && said 'there is no libcrosstalk_mpi.so in' && said '`make mpi` builds it'
result "a missing plug-in is named"
rm -rf "$lonely"
"$check" messages > "$log" 2>&1
status=$?
[ $status = 2 ] && said 'start this with mpirun'
result "a program by itself is no rank"

# Whole trainings, of whose tests each counts.
CROSSTALK_MPI=1 CROSSTALK_SOURCE=$(pwd) CROSSTALK_BINARY=$(cd "$build" && pwd)/crosstalk OMP_WAIT_POLICY=passive \
  "$build/tests/mpi/mpi_train_test" --gtest_color=no > "$log" 2>&1 || cat "$log"
sed -n 's/^[0-9]* of [0-9]* runs were cut.*/  &/p' "$log"
more=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests*\..*/\1/p' "$log" | tail -n 1)
bad=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) tests*, listed.*/\1/p' "$log" | tail -n 1)
passed=$((passed + ${more:-0}))
failed=$((failed + ${bad:-$([ -n "$more" ] && echo 0 || echo 1)}))

echo "$passed passed, $failed failed"
[ $failed = 0 ]
