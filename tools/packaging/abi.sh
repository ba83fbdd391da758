#!/bin/sh
# abi.sh dump|compare LIBRARY RECORD: the binary interface of LIBRARY, which was compiled with -g, as RECORD keeps it:
# functions and variables that the shared library exports, and the types of them that public headers declare. `dump`
# writes the record; `compare` fails where what it holds is gone or is another. Additions are no fault.
set -eu
action=$1
library=$2
record=$3
for tool in abidw abidiff xz; do
  command -v $tool > /dev/null || { echo "make abi: there is no $tool; packages.txt has the group abi" >&2; exit 1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for header in $(sh tools/make/public_headers.sh) models/bindings/c/crosstalk.h; do
  mkdir -p "$folder/headers/${header%/*}"
  cp "$header" "$folder/headers/$header"
done
abidw --headers-dir "$folder/headers" --drop-private-types --exported-interfaces-only --no-corpus-path \
  --no-comp-dir-path --no-show-locs --no-elf-needed --out-file "$folder/abi" "$library"
# Weak symbols, instances of templates and inline functions, are as many as the compiler likes; programs have their own.
sed -i "/binding='weak-binding'/d" "$folder/abi"
if [ "$action" = dump ]; then
  mkdir -p "$(dirname "$record")"
  xz -9 -c "$folder/abi" > "$record"
  echo "$record: $(grep -c '<elf-symbol' "$folder/abi") functions and variables, $(stat -c %s "$record") bytes"
  exit
fi
if ! [ -e "$record" ]; then
  echo "there is no $record: no release has this soname yet, and so nothing was promised"
  exit
fi
xz -dc "$record" > "$folder/recorded"
printf '[suppress_%s]\nname_regexp = ^crosstalk::internal::\n' type function variable > "$folder/internal"
compare() {  # compare [OPTION…]
  abidiff --suppressions "$folder/internal" --no-added-syms "$@" "$folder/recorded" "$folder/abi"
}
if ! compare > "$folder/report"; then
  # The changed types themselves: the report by functions may show of one no more than what leads to it.
  if compare --leaf-changes-only; then cat "$folder/report"; fi
  echo "programs that were linked with $record would not run as they are. If a release has this soname, the version in" \
    "runtime/version.h must change, and the soname with it (docs/embedding.md, Versions); else make abi-dump" >&2
  exit 1
fi
echo "nothing that $record holds is gone or another"
