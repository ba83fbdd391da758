#!/bin/sh
# hash_table.sh BUILD: trains each model with each optimizer in both precisions for 30 steps in 8 parts, on 1, 2, 3, 4,
# 5 and 8 ranks of 1 and of 3 threads over MPI, and prints a row of a Markdown table for each: the sha256 of the model,
# and how many of the twelve runs have it. Status 1 if one differs. Takes ten minutes on two processors.
set -u
build=$1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMP_WAIT_POLICY=passive
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0

train() {  # train RANKS THREADS OPTION…: prints the sha256 of the model
  ranks=$1
  threads=$2
  shift 2
  start="mpirun --oversubscribe --bind-to none -np $ranks"
  [ "$ranks" != 1 ] || start=
  rm -rf "$folder/run"
  timeout -k 5 600 $start "$build/crosstalk" train --tokenizer bytes --d-model 16 --heads 2 --d-ff 24 --layers 1 \
    --input-length 16 --batch 11 --shards 8 --steps 30 --clip 0.5 --dropout 0.1 --eval-batches 1 --eval-every 0 \
    --checkpoint-every 0 --threads "$threads" --out "$folder/run" "$@" > "$folder/log" 2>&1 || cat "$folder/log" >&2
  sha256sum < "$folder/run/model.safetensors" | cut -d ' ' -f 1
}

echo "| model | precision | optimizer | sha256 of the model | runs that have it |"
echo "|---|---|---|---|---|"
for model in t5 bert albert lm; do
  for precision in fp32 bf16; do
    for optimizer in adamw adafactor lamb; do
      first=
      equal=0
      all=0
      for ranks in 1 2 3 4 5 8; do
        for threads in 1 3; do
          sum=$(train $ranks $threads --model $model --precision $precision --optimizer $optimizer)
          first=${first:-$sum}
          all=$((all + 1))
          [ "$sum" != "$first" ] || equal=$((equal + 1))
        done
      done
      echo "| $model | $precision | $optimizer | \`$first\` | $equal of $all |"
      [ $equal = $all ] || status=1
    done
  done
done
exit $status
