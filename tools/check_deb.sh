#!/bin/sh
# check_deb.sh ARCHIVE VERSION SO FOLDER: that of the packages which build_deb.sh built into FOLDER lintian has nothing to
# say, that a second build in another folder, time zone and locale gives the same bytes, and that on a fresh Debian 12,
# which mmdebstrap makes as root, they install and pass their own tests, debian/tests.
set -eu
archive=$1
version=$2
so=$3
folder=$4
for tool in lintian mmdebstrap; do
  command -v $tool > /dev/null || { echo "make deb-check: there is no $tool; packages.txt has the group deb" >&2; exit 1; }
done

echo "== lintian"
lintian --fail-on error,warning --info "$folder"/*.changes
echo "== built again"
TZ=Etc/GMT+12 LC_ALL=C sh tools/build_deb.sh "$archive" "$version" "$so" "$folder-again/in-a-longer-folder"
count=0
for file in "$folder"/*.deb "$folder"/*.dsc "$folder"/*.tar.*; do
  cmp "$file" "$folder-again/in-a-longer-folder/${file##*/}"
  count=$((count + 1))
done
echo "$count files are the same to the byte"

echo "== on a fresh Debian 12"
mmdebstrap --quiet --mode=root --variant=apt \
  --customize-hook='mkdir "$1/packages"' \
  --customize-hook="copy-in $(ls "$folder"/*_*.deb | grep -v dbgsym | tr '\n' ' ') tools/debian/tests /packages" \
  --customize-hook='chroot "$1" sh -c "cd /packages && apt-get install -y -qq --no-install-recommends ./crosstalk_*.deb"' \
  --customize-hook='chroot "$1" sh /packages/tests/train' \
  --customize-hook='chroot "$1" sh -c "cd /packages && apt-get install -y -qq --no-install-recommends ./*.deb g++ pkg-config cmake make"' \
  --customize-hook='chroot "$1" sh /packages/tests/tutorial' \
  --customize-hook='chroot "$1" sh -c "apt-get purge -y -qq libcrosstalk* crosstalk && ! ls /usr/lib/*/libcrosstalk* /usr/bin/crosstalk"' \
  bookworm /dev/null
echo "the packages install, work and go"
