#!/bin/sh
# check_variables.sh GOAL GIVEN KNOWN [COMMAND SUBCOMMAND]: fails unless each variable of the list GIVEN, as
# `make GOAL` got them on its command line, is one of the list KNOWN or is an option of `COMMAND SUBCOMMAND`, in
# capitals (D_MODEL for --d-model). Prints one line for the first that is not, with the nearest name.
set -eu
goal=$1
given=$2
known=$3
options=
flags=
hint=
if [ $# -gt 3 ]; then
  # An option of two names is one of each.
  help=$("$4" "$5" --help=all)
  # Another command's options, which it takes as well.
  of=$(printf '%s\n' "$help" | tr '\n' ' ' | sed -n 's/.*All options of `crosstalk \([a-z]*\)`.*/\1/p')
  if [ -n "$of" ]; then
    taken=$("$4" options "$5" | sed 's/,.*//; s/.*/^  &([ ,]|$)/')
    help=$(printf '%s\n' "$help" && "$4" "$of" --help=all | grep -E "$taken")
  fi
  help=$(printf '%s\n' "$help" | sed 's/^  --\([a-z0-9-]*\), --\([a-z0-9-]*\)\(.*\)/  --\1\3\n  --\2\3/')
  # "  --d-model N   Width": takes a value. "  --json   Print": takes none.
  options=$(printf '%s\n' "$help" | sed -n 's/^  --\([a-z0-9-]*\)\(, -[^ ]*\)* [^ -].*/\1/p' | tr 'a-z\n-' 'A-Z _')
  flags=$(printf '%s\n' "$help" | sed -n 's/^  --\([a-z0-9-]*\)\(, -[^ ]*\)*\(  .*\)*$/\1/p' | tr 'a-z\n-' 'A-Z _')
  hint="; $4 $5 --help=all lists the options"
fi
for name in $given; do
  case " $known $options " in *" $name "*) continue ;; esac
  case " $flags " in
    *" $name "*)
      echo "make $goal: $name is an option without a value: ARGS=--$(printf %s "$name" | tr 'A-Z_' 'a-z-')" >&2
      exit 1
      ;;
  esac
  # Levenshtein's distance, without regard to case.
  nearest=$(echo "$known $options" | tr -s ' ' '\n' | awk -v name="$name" '
    function min(a, b) { return a < b ? a : b }
    BEGIN { a = toupper(name); n = length(a); best = n > 5 ? n / 2 : 2 }
    NF {
      m = length($0)
      for (j = 0; j <= m; ++j) row[j] = j
      for (i = 1; i <= n; ++i) {
        diagonal = row[0]
        row[0] = i
        for (j = 1; j <= m; ++j) {
          replaced = diagonal + (substr(a, i, 1) != substr($0, j, 1))
          diagonal = row[j]
          row[j] = min(replaced, min(row[j], row[j - 1]) + 1)
        }
      }
      if (row[m] < best || (row[m] == best && nearest == "")) { best = row[m]; nearest = $0 }
    }
    END { print nearest }')
  if [ -n "$nearest" ]; then hint="; did you mean $nearest?"; fi
  echo "make $goal: nothing reads the variable $name$hint" >&2
  exit 1
done
