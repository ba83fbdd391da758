#!/bin/sh
# net.sh BUILD [--accept]: everything that the command prints and writes of fixtures, and the library's symbols, into
# BUILD/net; compared with tests/net/expected.sha256, which has a line for each. With --accept the lines are
# rewritten: a change that means to change an output does so in its commit. `make net` runs the tests of published bits too.
set -eu
build=$1
accept=${2:-}
source=$(pwd)
command=$source/$build/crosstalk
net=$source/$build/net
rm -rf "$net"
mkdir -p "$net/runs" "$net/work"
cd "$net"
export NO_COLOR=1 TZ=UTC LC_ALL=C
for name in $(env | sed -n 's/^\(OMP_[A-Z0-9_]*\|OPENBLAS_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
tables="1 2 3 4 5 6 7 8 9 10 heads puzzles family family-time rates layers"

# Runs COMMAND…, its output and errors in FILE, and its exit code where it is not 0.
keep() {  # keep FILE COMMAND…
  file=$1
  shift
  mkdir -p "$(dirname "$file")"
  "$@" > "$file" 2>&1 || echo "exit code $?" >> "$file"
}

# What every option says.
keep options "$command" options
keep help "$command" --help
keep version "$command" --version
for name in $(sed -n 's/^  \([a-z]*\)  .*/\1/p' help); do
  keep "help.$name" "$command" "$name" --help
done
keep mistyped "$command" trian
keep mistyped.option "$command" train --hedas 4

# The tables that are kept, by every printer.
for table in $tables; do
  keep "tables/$table.json" "$command" reproduce --table "$table" --scale small \
    --cells "$source/docs/reproduction/small" --out "tables/$table" --assemble --json
  keep "tables/$table.summary" "$command" reproduce --table "$table" --scale small \
    --cells "$source/docs/reproduction/small" --out "tables/$table" --summary
done
keep tables/plan.txt "$command" reproduce --table heads --scale small --cells work/none --out work/heads --list
for scale in smoke small medium paper; do keep "tables/$scale" "$command" reproduce --print-scale $scale; done

# Runs that an earlier version wrote: read, measured, written with, drawn.
for model in t5 lm bert albert; do
  cp -r "$source/tests/tools/commands/earlier_runs/$model" "runs/$model"
  keep "$model.show" "$command" show "runs/$model"
  keep "$model.show.json" "$command" show "runs/$model" --json
  keep "$model.eval" "$command" eval --run "runs/$model" --threads 2
  keep "$model.eval.json" "$command" eval --run "runs/$model" --json --threads 2
  keep "$model.inspect.json" "$command" inspect "runs/$model" --json --threads 2
  keep "$model.inspect" "$command" inspect "runs/$model" --text "The miller sang." --out "$model.html" --threads 2
  keep "$model.report" "$command" report "runs/$model" --out "$model.report.html" --samples 1 --threads 2
  keep "$model.dry-run" "$command" train --init-from "runs/$model" --out work/dry --dry-run --steps 5 --threads 1
done
keep both.report "$command" report runs/t5 runs/lm --out both.html --samples 0
keep lm.generate.json "$command" generate runs/lm --text "The miller" --temperature 0 --max-length 40 --json --threads 2
keep lm.drawn.json "$command" generate runs/lm --text "The miller" --seed 3 --answers 2 --max-length 40 --json
keep t5.generate.json "$command" generate runs/t5 --text "The ___ sang at the ___." --beams 3 --json --threads 2

# A training from nothing, resumed; without what a clock or a processor says.
keep work/train "$command" train --model lm --tokenizer bytes --d-model 24 --heads 3 --d-ff 40 --layers 2 \
  --attention talking --input-length 24 --batch 3 --steps 4 --eval-every 2 --eval-batches 2 --out work/run --threads 2
keep work/more "$command" train --resume work/run --steps 6 --threads 1
sha256sum work/run/model.safetensors work/run/tokenizer.json > trained.sha256
machine='processor\|threads\|energy\|cpu_name\|total_memory\|operating_system\|compiler\|c_library'
sed "s/\"\(seconds\|started\|time\|$machine\)[^,}]*//g" work/run/run.json > trained.run.json
cut -d, -f1-4 work/run/metrics.jsonl | sed 's/"[a-z_]*second[^,}]*//g' > trained.metrics
(cd work/run && find . -type f | LC_ALL=C sort) > trained.files

# Published folders: in, out, computed.
cp -r "$source/tests/tools/commands/parity" work/published
for model in t5_relu_tied bert_pretraining albert_groups1; do
  folder=work/published/$model
  keep "$model.import" "$command" import "$folder" --out "work/$model" --attention talking
  keep "$model.plain" "$command" import "$folder" --out "work/$model.plain"
  keep "$model.export" "$command" export "work/$model.plain" --out "work/$model.out"
  keep "$model.extended" "$command" export "work/$model" --out "work/$model.extended" --with-extensions
  keep "$model.forward" "$command" forward "$folder" --inputs "$folder/inputs.safetensors" --all --gradients \
    --output "work/$model.safetensors" --threads 2
  for made in "$model" "$model.plain" "$model.out" "$model.extended" "$model.safetensors"; do
    find "work/$made" -type f | LC_ALL=C sort | xargs sha256sum
  done > "$model.files"
done
keep mesh.export "$command" export work/t5_relu_tied --format mesh --out work/mesh
find work/mesh -type f | LC_ALL=C sort | xargs sha256sum > mesh.files

# Tokenizers and scores of small files.
printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nmill\n##er\nsang\n.\n' > work/vocab.txt
printf 'The miller sang.\nMiller!\tThe [MASK]\n' > work/lines
keep tokens.json "$command" tokenize work/lines --tokenizer work/vocab.txt --json --special
keep tokens "$command" tokenize work/lines --tokenizer bytes
printf 'sentence\tlabel\nfine\t1\nbad\t0\nfair\t1\n' > work/dev.tsv
printf 'index\tprediction\n0\t1\n1\t1\n2\t1\n' > work/SST-2.tsv
keep score.json "$command" score --task sst-2 --gold work/dev.tsv --predictions work/SST-2.tsv --json
keep score "$command" score --task sst-2 --gold work/dev.tsv --predictions work/SST-2.tsv
keep complexity "$command" complexity
keep complexity.json "$command" complexity --json --attention dynamic --heads 12

# A step that was recorded, over ranks and networks.
keep simulate "$command" simulate --recording "$source/tests/net/step.json" --out simulate.html
keep simulate.json "$command" simulate --recording "$source/tests/net/step.json" --json
keep simulate.svg.text "$command" simulate --recording "$source/tests/net/step.json" --out simulate.svg

# The symbols a program can link, without the weak ones: the compiler makes those of templates and inline functions.
nm -D --defined-only "$source/$build/lib/libcrosstalk.so" | sed -n 's/^[0-9a-f]* [BDRT] //p' | c++filt | LC_ALL=C sort \
  > symbols

# No path of this place, nor the size of a page that names it, and no version, of now, of kept results or of a compiler:
# those change without a change of what is said.
find . -type f ! -path './work/*' ! -path './runs/*' | LC_ALL=C sort | while read -r file; do
  sed -i "s|$source|SOURCE|g; s|\b[0-9]\+\.[0-9]\+\.[0-9]\+\b|VERSION|g; s|([0-9.]* kB)\$|(SIZE)|" "$file"
done
find . -type f ! -path './work/*' ! -path './runs/*' ! -name now.sha256 | LC_ALL=C sort | xargs sha256sum > now.sha256
expected=$source/tests/net/expected.sha256
if [ "$accept" = --accept ]; then
  cp now.sha256 "$expected"
  echo "net: $(wc -l < now.sha256) outputs accepted"
  exit
fi
if cmp -s "$expected" now.sha256; then
  echo "net: $(wc -l < now.sha256) outputs are as expected"
  exit
fi
diff "$expected" now.sha256 | sed -n 's/^[<>] [0-9a-f]*  \.\//  /p' | LC_ALL=C sort -u
echo "net: these outputs differ; $build/net has what they are, and make net-accept takes them" >&2
exit 1
