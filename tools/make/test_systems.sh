#!/bin/sh
# test_systems.sh FOLDER [ROW…]: makes each system below with mmdebstrap, as root or with user namespaces, runs `make` and
# `make test` there as a newcomer would, and keeps what they print in FOLDER/ROW.log. A row fails on a warning of the
# compiler as well. No row: all. Each row also has a circumstance of its own, so that none needs a build to itself. A
# row's /dev/shm is its own: libomp keeps a file for each process there, and the host's have the same numbers.
set -eu

# Row, Debian's release, compiler, its packages, circumstance.
rows='
bookworm-g++     bookworm g++     g++,mount         no-proc
bookworm-clang++ bookworm clang++ clang,libomp-dev  blank
trixie-g++       trixie   g++     g++               umask
trixie-clang++   trixie   clang++ clang,libomp-dev  read-only
'

# What runs in the system, as root, with the sources in /sources.
cat_in_system() {
  cat << 'IN_SYSTEM'
set -eu
compiler=$1 circumstance=$2
export DEBIAN_FRONTEND=noninteractive
chown -R root:root /sources
cd /sources
variables=CXX=$compiler
build() {  # build COMMAND…: both commands of a newcomer, by way of COMMAND
  "$@" make $variables && "$@" make $variables test
}
case $circumstance in
  no-proc)  # neither of the kernel's file systems
    sh tools/make/setup.sh packages.txt build test
    mount -t tmpfs none /proc
    mount -t tmpfs none /sys
    build env ;;
  blank)  # a blank in the path
    mv /sources '/a folder'
    cd '/a folder'
    build env ;;
  umask)  # files that only their owner reads
    umask 077
    build env ;;
  read-only)  # another's sources, by a user who is not root, who builds elsewhere, and whose language has dotless i
    sh tools/make/setup.sh packages.txt build test
    apt-get install -y -qq --no-install-recommends locales passwd > /dev/null
    echo 'tr_TR.UTF-8 UTF-8' > /etc/locale.gen
    locale-gen > /dev/null
    useradd -m newcomer
    variables="$variables BUILD=/home/newcomer/build"
    build runuser -u newcomer -- env HOME=/home/newcomer LC_ALL=tr_TR.UTF-8 ;;
esac
IN_SYSTEM
}

folder=$1
shift
mkdir -p "$folder"
git ls-files -z | tar --null -cf "$folder/crosstalk.tar" -T -
cat_in_system > "$folder/in_system.sh"

clean='env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin'  # of what make above has told
passed=0
failed=0
for row in ${*:-$(printf '%s' "$rows" | sed 's/ .*//')}; do
  settings=$(printf '%s' "$rows" | grep "^$row ") || { echo "make test-systems: no system $row; there are:$rows" >&2; exit 1; }
  set -- $settings
  log=$folder/$row.log
  echo "== $1: $2, $3, $5"
  status=0
  mmdebstrap --quiet --variant=apt --include="make,$4" \
    --customize-hook='mkdir "$1/sources"' \
    --customize-hook="tar-in $folder/crosstalk.tar /sources" \
    --customize-hook="copy-in $folder/in_system.sh /" \
    --customize-hook="unshare --mount sh -c 'mount -t tmpfs none \"\$0/dev/shm\" && exec chroot \"\$0\" $clean \\
      sh /in_system.sh $3 $5' \"\$1\"" \
    "$2" /dev/null > "$log" 2>&1 || status=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  warnings=$(grep -c 'warning:' "$log" || true)
  echo "${line:-it did not get as far as the tests}; $warnings warnings"
  if [ $status = 0 ] && [ "$warnings" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
