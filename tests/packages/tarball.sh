#!/bin/bash
# The tarball of the sources has the same bytes when it is made twice, in other folders, at other times, in another order of files.
#
#     tarball.sh SOURCE WORK      exit code 77: skipped
set -euo pipefail
source=$1
work=$2
git -C "$source" rev-parse >/dev/null 2>&1 || { echo "skipped: $source is no checkout of git"; exit 77; }
rm -rf "$work"
mkdir -p "$work"
SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# copy FOLDER ORDER: of what git knows, files made in this order
copy() {
    mkdir -p "$work/$1"
    (cd "$source" && git ls-files -co --exclude-standard | sort "$2" | while read -r file; do [ ! -e "$file" ] || echo "$file"; done |
        tar -cf - -T -) | tar -xmf - -C "$work/$1"
}

# pack FOLDER [COMMAND...]: under this command; without looking for optional libraries, which a tarball does not need
pack() {
    local folder=$1
    shift
    mkdir -p "$work/$folder-build"
    chmod 777 "$work/$folder-build"
    ("$@" cmake -S "$work/$folder" -B "$work/$folder-build" -DBUILD_TESTING=OFF -DVARVE_MPI=OFF -DVARVE_FORTRAN=OFF >"$work/log" &&
        cd "$work/$folder-build" && "$@" cpack --config CPackSourceConfig.cmake >>"$work/log") || { cat "$work/log"; exit 1; }
}
copy one -k1
copy two -rk1
touch -d 2001-01-01 "$work/two/README.md"
pack one env
# By somebody else, if that can be.
if [ "$(id -u)" -eq 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups test -r "$work/two/README.md"; then
    pack two setpriv --reuid 65534 --regid 65534 --clear-groups
else
    pack two env
fi
sha256sum "$work"/*-build/varve-*.tar.gz
cmp "$work"/one-build/varve-*.tar.gz "$work"/two-build/varve-*.tar.gz
tar -tzf "$work"/one-build/varve-*.tar.gz | sed 's#^[^/]*/##' | grep -v '/$' | grep . | sort >"$work/packed"
(cd "$work/one" && find . -type f -o -type l | sed 's#^\./##' | sort) >"$work/known"
diff "$work/known" "$work/packed" || { echo "the tarball and git have other files"; exit 1; }
echo "the same tarball twice, with $(wc -l <"$work/packed") files"
rm -rf "$work"
