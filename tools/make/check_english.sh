#!/bin/sh
# check_english.sh [FILE…]: fails where a page, a comment, a help text or a message has one of the phrases below, which
# docs/style.md bans. Prints file:line, the phrase and the preferred wording. Reads the FILEs, or README.md, ARTIFACT.md,
# docs/ and all sources, strings and code included: code has none of these phrases. A phrase may continue in the next
# line.
set -eu
files=$(mktemp)
trap 'rm -f "$files"' EXIT
if [ $# -gt 0 ]; then printf '%s\n' "$@"; else
  find . -maxdepth 1 \( -name '*.md' -o -name Makefile \)
  find -H docs examples -name '*.md'
  find -H .ci runtime kernels autograd nn models tools tests examples -type f \
    \( -name '*.cc' -o -name '*.h' -o -name '*.c' -o -name '*.py' -o -name '*.sh' -o -name '*.mk' -o -name '*.css' -o -name '*.js' -o -name run \) \
    ! -name check_english.sh
fi | LC_ALL=C sort > "$files"
xargs awk '
  # Words are separated by one space, and a space surrounds each text: " to " finds the word alone.
  function ban(pattern, wording) { patterns[++bans] = pattern; wordings[bans] = wording }
  BEGIN {
    word = "[a-z][a-z'"'"'-]* "
    few = "(" word "|" word word "|" word word word ")"
    ban(" behind ", "after; of places: below, under, inside")
    ban(" nothing but ", "only")
    ban(" (is|are|was|were|be) what ", "subject, verb, object, without \"what\"")
    ban(" (stand|stands|stood|standing) for ", "is, means, represents")
    ban(" none of " few "that ", "no … that")
    ban(" of " few "of " few "of ", "at most two \"of\" in a chain")
    ban(" anew ", "again, or a verb in re-")
    ban(" but for ", "except")
    ban(" but where ", "except where")
    ban(" whoever ", "name the reader or the caller")
    ban(" in the place of ", "instead of")
    ban(" where there (is|are|was|were) ", "if there is, with, without")
  }
  function check(text, before, i, phrase) {  # before: the characters of text that an earlier line has shown
    for (i = 1; i <= bans; ++i) {
      if (!match(text, patterns[i]) || RSTART + RLENGTH - 1 <= before) continue
      phrase = substr(text, RSTART, RLENGTH)
      if (phrase ~ / of .* (and|or|to|than|from|between|in|by|at|as) /) continue  # two things, not a chain
      printf "%s:%d:%s(better: %s)\n", FILENAME, FNR, phrase, wordings[i]
      bad = 1
    }
  }
  FNR == 1 { last = "" }
  /(\/\/|\/\*|^[ \t]*#) Of / {
    printf "%s:%d: a comment that begins with \"Of\" (better: a sentence, with its subject and verb)\n", FILENAME, FNR
    bad = 1
  }
  {
    line = $0
    if (FILENAME ~ /\.md$/) gsub(/`[^`]*`/, "|", line)  # code is quoted, not said
    sub(/^[ \t]*(\/\/|#+|\*|"|>|\|)?/, "", line)  # marks of comments, strings and quotations that a phrase goes on across
    sub(/"[;,)]*$|\\$/, "", line)
    gsub(/[.,:;!?()"`|*\\]/, " & ", line)         # a phrase has no mark inside
    gsub(/[ \t]+/, " ", line)
    line = tolower(line)
    sub(/^ ?/, " ", line)
    sub(/ ?$/, " ", line)
    tail = substr(last, length(last) - 79)
    check(tail substr(line, 2), length(tail))
    last = line == " " ? "" : line
  }
  END { exit bad }' < "$files" || exit 1
echo "english: no banned phrase"
