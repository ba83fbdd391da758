#!/bin/sh
# check_deb.sh ARCHIVE VERSION SO FOLDER: that lintian has nothing to say of the packages which build_deb.sh built into
# FOLDER, that a second build in another folder, time zone and locale gives the same bytes, and that on a fresh Debian 12,
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
# The tag that is left out is of packages that are uploaded to Debian.
lintian --allow-root --fail-on error,warning --info --suppress-tags initial-upload-closes-no-bugs "$folder"/*.changes
echo "== built again"
TZ=Etc/GMT+12 LC_ALL=C sh tools/packaging/build_deb.sh "$archive" "$version" "$so" "$folder-again/in-a-longer-folder"
count=0
for file in "$folder"/*.deb "$folder"/*.dsc "$folder"/*.tar.*; do
  cmp "$file" "$folder-again/in-a-longer-folder/${file##*/}"
  count=$((count + 1))
done
echo "$count files are the same to the byte"

echo "== on a fresh Debian 12"
packages=$(ls "$folder"/*.deb | grep -v dbgsym | tr '\n' ' ')
install='DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends'
purge='apt-get purge -y -qq libcrosstalk* crosstalk crosstalk-mpi python3-crosstalk'
# First the command alone, so that what it needs comes by its own dependencies.
mmdebstrap --quiet --mode=root --variant=apt \
  --customize-hook='mkdir "$1/packages"' \
  --customize-hook="copy-in $packages tools/packaging/debian/tests /packages" \
  --customize-hook="chroot \"\$1\" sh -c 'cd /packages && $install ./crosstalk_*.deb > /dev/null'" \
  --customize-hook='chroot "$1" sh /packages/tests/train' \
  --customize-hook="chroot \"\$1\" sh -c 'cd /packages && $install ./*.deb g++ pkg-config cmake make > /dev/null'" \
  --customize-hook='chroot "$1" sh /packages/tests/tutorial' \
  --customize-hook='chroot "$1" sh /packages/tests/python' \
  --customize-hook='chroot "$1" sh /packages/tests/ranks' \
  --customize-hook="chroot \"\$1\" sh -c '$purge > /dev/null && ! ls /usr/lib/*/libcrosstalk* /usr/bin/crosstalk 2> /dev/null'" \
  bookworm /dev/null
echo "the packages install, work and go"
