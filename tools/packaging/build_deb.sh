#!/bin/sh
# build_deb.sh ARCHIVE VERSION SO FOLDER: Debian packages of the sources in ARCHIVE, as `make dist` makes it, in FOLDER,
# which is recreated. SO is the end of the soname, "0.2". The date of the changelog is the last commit's, the maintainer
# DEBFULLNAME and DEBEMAIL, or else "The Crosstalk maintainers" at that commit's address.
set -eu
archive=$1
version=$2
so=$3
folder=$4
for tool in dpkg-buildpackage dh; do
  command -v $tool > /dev/null || { echo "make deb: there is no $tool; packages.txt has the group deb" >&2; exit 1; }
done
maintainer="${DEBFULLNAME:-The Crosstalk maintainers} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"
date=$(LC_ALL=C date -u -R -d "@$(git log -1 --format=%ct)")
umask 022
rm -rf "$folder"
mkdir -p "$folder"
cp "$archive" "$folder/crosstalk_$version.orig.tar.gz"
tar -xzf "$archive" -C "$folder"
source=$folder/crosstalk-$version
cp -r "$source/tools/packaging/debian" "$source/debian"
for template in "$source"/debian/*.in; do
  sed -e "s|@VERSION@|$version|g" -e "s|@SO@|$so|g" -e "s|@MAINTAINER@|$maintainer|g" -e "s|@DATE@|$date|g" \
    "$template" > "${template%.in}"
  rm "$template"
done
for file in "$source"/debian/*@SO@*; do
  mv "$file" "$(printf '%s\n' "$file" | sed "s|@SO@|$so|")"
done
cd "$source"
# Without what a make that runs this was given.
if ! env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL dpkg-buildpackage -us -uc > ../build.log 2>&1; then
  tail -n 30 ../build.log >&2
  echo "make deb: the build failed; $folder/build.log has all of it" >&2
  exit 1
fi
