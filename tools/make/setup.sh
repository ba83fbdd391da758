#!/bin/sh
# setup.sh PACKAGES.TXT GROUP…: installs the Debian packages of those groups that are missing, as root or with
# password-less sudo; otherwise it stops and prints the one command to run. Says and does nothing when all are there.
set -eu
list=$1
shift
packages=
for group in "$@"; do
  packages="$packages $(sed -n "s/^$group  *//p" "$list" | tr '\n' ' ')"
done
# One query for all of them: what it does not report as installed is missing.
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $packages 2>/dev/null | sed -n 's/^installed //p' || true)
missing=
for package in $packages; do
  printf '%s\n' "$installed" | grep -qxF -- "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
  echo "setup: this is not a Debian system; install the equivalents of:$missing" >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root=sudo
else
  echo "setup: these packages are missing, and installing them needs root. Run:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
  exit 1
fi
echo "setup: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq >&2
$as_root apt-get install -y -qq --no-install-recommends $missing >&2
