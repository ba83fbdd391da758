#!/bin/sh
# check_layers.sh: fails on any include that points down the list of layers (docs/architecture.md), or down the list of
# rooms in models/ or tools/; on an include of our own that is not written as "crosstalk/LAYER/…", on a JSON or a
# tokenizer library outside the one file that may use it, and on the C library's mathematics. <crosstalk/crosstalk.h>
# (models/crosstalk.h, which includes every public header) is for other people's programs; here each file includes what
# it uses. Fails also on a public header that is not marked so, or another that is; and where docs/images/models.svg or
# tools.svg shows other includes.
set -u
layers="runtime kernels autograd nn models tools"
# The folders of models/ in their order, each of which may include those before it. `model` are the files directly in
# models/, and `objectives` are training/objectives; crosstalk.h includes everything.
model_layers="text model tasks decoding inspection lm t5 bert registry objectives training interop bindings"
# The rooms of tools/, likewise; tools/crosstalk.cc includes commands. Only the commands that run the laboratory include it.
tool_layers="mpi cli page lab commands"
lab_commands="bench compare reproduce simulate trace"
bad=0
allowed=
model_layer_of() {  # model_layer_of PATH: sets model_layer
  model_layer=${1#models/}
  case $model_layer in
    registry.*) model_layer=registry ;;
    training/objectives/*) model_layer=objectives ;;
    */*) model_layer=${model_layer%%/*} ;;
    *) model_layer=model ;;
  esac
}
check_model_layers() {  # check_model_layers FILE INCLUDE
  [ "$1" = models/crosstalk.h ] && return
  model_layer_of "$1"
  from=$model_layer
  model_layer_of "$2"
  case " ${model_layers%%" $from"*} $from " in
    *" $model_layer "*) ;;
    *) echo "$1: includes \"$2\", which is not before $from in: $model_layers"; bad=1 ;;
  esac
}
check_tool_layers() {  # check_tool_layers FILE INCLUDE
  [ "$1" = tools/crosstalk.cc ] && return
  from=${1#tools/}
  from=${from%%/*}
  room=${2#tools/}
  room=${room%%/*}
  case " ${tool_layers%%"$from"*} $from " in
    *" $room "*) ;;
    *) echo "$1: includes \"$2\", which is not before $from in: $tool_layers"; bad=1 ;;
  esac
  if [ "$from" = commands ] && [ "$room" = lab ]; then
    command=${1##*/}
    case " $lab_commands " in
      *" ${command%.*} "*) ;;
      *) echo "$1: includes \"$2\", but only these run the laboratory: $lab_commands"; bad=1 ;;
    esac
  fi
}
for layer in $layers; do
  allowed="$allowed $layer"
  for file in $(find "$layer" -name '*.h' -o -name '*.cc' | sort); do
    for include in $(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$file"); do
      case $include in
        hwy/*) [ "$layer" = kernels ] && continue ;;  # Highway, as its own documentation includes it
        tools/*) ;;
        embedded/tools/*)  # a file of the command as a string literal, which the Makefile makes
          [ "$layer" = tools ] && include=${include#embedded/} && include=${include%.inc} ;;
        crosstalk/crosstalk.h | crosstalk/models/crosstalk.h)
          echo "$file: includes \"$include\", which is for programs outside"; bad=1; continue ;;
        crosstalk/*) include=${include#crosstalk/} ;;
        *) echo "$file: includes \"$include\", which begins with neither crosstalk/ nor tools/"; bad=1; continue ;;
      esac
      top=${include%%/*}
      case " $allowed " in
        *" $top "*) ;;
        *) echo "$file: includes \"$include\", but $layer may include only:$allowed"; bad=1 ;;
      esac
      [ -f "$include" ] || { echo "$file: includes \"$include\", which is not a path from the root"; bad=1; }
      [ "$top" = models ] && [ "$layer" = models ] && check_model_layers "$file" "$include"
      [ "$top" = tools ] && [ "$layer" = tools ] && check_tool_layers "$file" "$include"
      case $file in
        models/text/*)
          case $top/$include in
            runtime/* | models/models/text/*) ;;
            *) echo "$file: includes \"$include\", but text needs runtime only"; bad=1 ;;
          esac ;;
      esac
    done
  done
done
only() {  # only PATTERN FILE…: the pattern may appear in an include of these files alone
  pattern=$1
  shift
  for file in $(grep -rlE "^ *# *include *<$pattern" $layers examples --include='*.h' --include='*.cc' 2>/dev/null); do
    case " $* " in
      *" $file "*) ;;
      *) echo "$file: only $* may include <$pattern>"; bad=1 ;;
    esac
  done
}
only 'nlohmann/' runtime/json_events.cc
only 'utf8proc' models/text/traced_text.cc
only 'pcre2' models/text/split_pattern.cc
only 'snappy' models/interop/mesh/table.cc
only 'zlib' runtime/packed.cc runtime/checksum.cc runtime/png.cc
only 'sentencepiece' models/text/sentencepiece_tokenizer.cc models/text/sentencepiece_training.cc
# The C library's functions differ between its versions; what decides a number of a run takes runtime/math.h or
# kernels/functions-inl.h instead. sqrt, floor and their like are exact. Tests compare with the references.
functions='exp|exp2|expm1|log|log2|log10|log1p|pow|cbrt|hypot|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|erf|erfc'
for match in $(grep -rnoE "std::($functions)[fl]?\(" runtime kernels autograd nn models --include='*.h' --include='*.cc' |
    grep -v '^kernels/reference/'); do
  echo "$match): the C library's bits differ between machines; runtime/math.h has ours"; bad=1
done
# Only public names are visible, so that the shared library exports them: runtime/visibility.h. What a public header declares
# outside its pragmas is for the library's own sources.
public=$(sh tools/make/public_headers.sh) || bad=1
for file in $(find $layers -name '*.h' | sort); do
  marked=$(grep -c '^#pragma GCC visibility push(default)$' "$file")
  [ "$marked" = "$(grep -c '^#pragma GCC visibility pop$' "$file")" ] ||
    { echo "$file: what makes names visible does not end"; bad=1; }
  if printf '%s\n' "$public" | grep -qxF "$file"; then
    grep -qE '^namespace crosstalk(::[A-Za-z_:]*)? \{$' "$file" && [ "$marked" = 0 ] &&
      { echo "$file: is public (models/crosstalk.h), but no namespace of it is between pragmas of visibility"; bad=1; }
  elif [ "$marked" != 0 ]; then
    echo "$file: makes names visible, but models/crosstalk.h does not include it"; bad=1
  fi
done
for top in models tools; do
  sh tools/make/draw_layers.sh $top | cmp -s - docs/images/$top.svg ||
    { echo "docs/images/$top.svg: is not of these sources; make graph draws it"; bad=1; }
done
[ $bad = 0 ] && echo "layers: every include points up"
exit $bad
