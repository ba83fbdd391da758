#!/bin/sh
# check_docs.sh COMMAND: fails where README.md, ARTIFACT.md or a page of docs/ or examples/ names something that does not
# exist: a header <crosstalk/…> that is not public, and in docs/embedding*.md one that is named without its folder; a file
# of the repository in code or as a link, a heading that a link points to, a target of make, a subcommand, or an option, of
# the subcommand that it follows or of any. Options and subcommands are those that COMMAND, a built crosstalk, lists. A
# name in capitals matches any: tools/commands/NAME.cc; so do * and …. Prints a line for each fault.
set -eu
names=$(mktemp)
trap 'rm -f "$names"' EXIT
options=$("$1" options)
{
  find -H .ci runtime kernels autograd nn models tools tests examples docs -type f | sed 's/^/file /'
  find . -maxdepth 1 -type f | sed 's|^\./|file |'
  sh tools/make/public_headers.sh | sed 's/^/header /'
  awk -F: '/^[a-z][a-z -]*:([^=]|$)/ {
    count = split($1, words, " ")
    for (i = 1; i <= count; ++i) print "target", words[i]
  }' Makefile tools/*/*.mk
  printf '%s\n' "$options" | awk '{
    print "command", $1
    for (i = 2; i <= NF; ++i) { sub(/,$/, "", $i); print "option", $1, $i }
  }'
} > "$names"
awk '
  function fault(message) { print where ": " message; bad = 1 }

  # ---- What there is ----
  FILENAME == names_file {
    if ($1 == "file") {
      files[path = $2] = 1
      name = path
      sub(/.*\//, "", name)
      basenames[name] = 1
      while (sub(/\/[^\/]*$/, "", path)) folders[path] = 1
    }
    if ($1 == "header") {
      headers[$2] = 1
      name = $2
      sub(/.*\//, "", name)
      header_names[name] = 1
    }
    if ($1 == "target") targets[$2] = 1
    if ($1 == "command") commands[$2] = 1
    if ($1 == "option") options[$2, $3] = any_option[$3] = 1
    next
  }
  # A pattern of a path: capitals, * and … match anything; a file may lack its ending.
  function pattern_of(path) {
    gsub(/[.+()\[\]]/, "\\\\&", path)
    gsub(/[A-Z][A-Z]+/, "*", path)
    gsub(/\*|…/, "[^/]*", path)
    return "^" path "($|/|\\.[a-z]+$)"
  }
  function exists(path, from, to, middle, choices, count, i, pattern, file) {
    sub(/\/$/, "", path)
    if (path in files || path in folders) return 1
    if (match(path, /\{[^{}]*\}/)) {  # attention.{h,cc}: each
      from = substr(path, 1, RSTART - 1)
      middle = substr(path, RSTART + 1, RLENGTH - 2)
      to = substr(path, RSTART + RLENGTH)
      count = split(middle, choices, ",")
      for (i = 1; i <= count; ++i) if (!exists(from choices[i] to)) return 0
      return 1
    }
    pattern = pattern_of(path)
    for (file in files) if (file ~ pattern) return 1
    return 0
  }
  function named(name, pattern, other) {  # a file of that name in any folder
    if (name in basenames) return 1
    pattern = pattern_of(name)
    for (other in basenames) if (other ~ pattern) return 1
    return 0
  }

  function basename(path) {
    sub(/.*\//, "", path)
    return path
  }

  # ---- What a piece of code names ----
  function check_words(code, in_block, words, count, i, word) {
    count = split(code, words, /[ \t"`|;()<>=]+/)
    for (i = 1; i <= count; ++i) {
      word = words[i]
      sub(/[.,:]+$/, "", word)
      sub(/:[0-9]+$/, "", word)
      if (word ~ /^build\/(tests|examples)\//) sub(/^build\//, "", word)
      if (word ~ /^(\.ci|runtime|kernels|autograd|nn|models|tools|tests|examples|docs)\//) {
        if (!exists(word)) fault("there is no " word)
      } else if (!in_block && word ~ /^[A-Za-z0-9_-]+\.(h|cc|sh|mk|css|js)$/ && !named(word)) {
        fault("no folder has a " word)
      } else if (of_embedding && word ~ /\.h$/ && !(basename(word) in header_names)) {
        fault("there is no public header " word)
      }
    }
  }
  function check_headers(line, header) {
    while (match(line, /[<"]crosstalk\/[^>" ]+\.h[>"]/)) {
      header = substr(line, RSTART + 11, RLENGTH - 12)
      line = substr(line, RSTART + RLENGTH)
      if (header == "crosstalk.h") header = "models/crosstalk.h"
      if (!(header in headers)) fault("there is no public header <crosstalk/" header ">")
    }
  }
  function check_option(word, command) {
    sub(/[^a-z0-9-].*$/, "", word)
    if (word !~ /^--[a-z]/ || word ~ /^--(help|version|config)$/) return  # each has these
    if (command == "" && !(word in any_option)) fault("no subcommand has an option " word)
    if (command != "" && !((command, word) in options)) fault("crosstalk " command " has no option " word)
  }
  # Checks one command of a line. The options of other programs are theirs.
  function check_command(text, is_first, words, count, i, command) {
    count = split(text, words, /[ \t]+/)
    i = 1
    while (i <= count && (words[i] == "" || words[i] ~ /^[A-Z_]+=/)) ++i
    if (i > count) return
    if (words[i] == "make") {
      while (++i <= count && words[i] ~ /^[a-z][a-z-]*$/) {
        if (!(words[i] in targets)) fault("there is no target make " words[i])
      }
      return
    }
    if (words[i] ~ /^-/) {
      if (!is_first) return  # after a $(…) options are those of any program
      for (; i <= count; ++i) check_option(words[i], "")
      return
    }
    if (words[i] in commands) {  # `export --with-extensions`
      command = words[i]
    } else {
      while (i <= count && words[i] !~ /(^|\/)crosstalk$/) ++i
      if (++i > count || words[i] !~ /^[a-z][a-z-]*[,.:]?$/) return
      command = words[i]
      sub(/[,.:]$/, "", command)
      if (!(command in commands)) { fault("there is no subcommand crosstalk " command); return }
    }
    while (++i <= count) check_option(words[i], command)
  }
  function check_code(code, in_block, parts, count, i) {
    check_words(code, in_block)
    sub(/(^|[ \t])#.*/, "", code)
    count = split(code, parts, /\||;|&&|\$\(|\)/)
    for (i = 1; i <= count; ++i) check_command(parts[i], i == 1)
  }

  # ---- Links ----
  function check_links(line, link, path, anchor) {
    while (match(line, /\]\([^) ]+\)/)) {
      link = substr(line, RSTART + 2, RLENGTH - 3)
      line = substr(line, RSTART + RLENGTH)
      if (link ~ /^[a-z]+:/) continue
      anchor = path = link
      sub(/#.*/, "", path)
      if (!sub(/^[^#]*#/, "", anchor)) anchor = ""
      path = path == "" ? FILENAME : folder path
      while (sub(/(^|[^\/]+\/)\.\.\//, "", path)) {}
      sub(/\/$/, "", path)
      if (!(path in files) && !(path in folders)) { fault("the link " link " leads nowhere"); continue }
      if (anchor != "") wanted[path, anchor] = where ": no heading of " path " is #" anchor
    }
  }
  function note_heading(line) {
    sub(/^#+ /, "", line)
    line = tolower(line)
    gsub(/[`.,:;()?!*&+=\/<>…"'"'"']/, "", line)
    gsub(/ /, "-", line)
    anchors[FILENAME, line] = 1
  }

  # ---- The documents, line by line ----
  FNR == 1 { of_embedding = FILENAME ~ /^docs\/embedding/ }
  FNR == 1 { open_span = block = 0; folder = FILENAME; if (!sub(/[^\/]*$/, "", folder)) folder = "" }
  { where = FILENAME ":" FNR; check_headers($0) }
  /^ *```/ {
    block = !block
    shell = $0 ~ /^ *```(sh)?$/
    joined = ""
    open_span = 0
    next
  }
  block {
    if (!shell) { check_words($0, 1); next }
    joined = joined $0
    if (sub(/\\$/, " ", joined)) next  # goes on in the next line
    check_code(joined, 1)
    joined = ""
    next
  }
  /^#/ { note_heading($0) }
  /^$/ { open_span = 0; next }
  {
    check_links($0)
    # Text and code take turns; a span of code may go on in the next line.
    count = split($0, pieces, "`")
    for (i = 1; i <= count; ++i) {
      if (i > 1) {
        if (open_span) check_code(span, 0)
        open_span = !open_span
        span = ""
      }
      if (open_span) {
        span = span pieces[i] " "
      } else {
        words_of_text = split(pieces[i], texts, /[ (]/)
        for (j = 1; j <= words_of_text; ++j) check_option(texts[j], "")
      }
    }
  }
  END {
    for (link in wanted) if (!(link in anchors)) { print wanted[link]; bad = 1 }
    if (!bad) print "docs: what they name exists"
    exit bad
  }' names_file="$names" "$names" README.md ARTIFACT.md docs/*.md docs/*/*.md examples/*.md examples/course/*.md
