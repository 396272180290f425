#!/bin/bash
# Build the Debian packages, look at them with lintian, and be a reader with nothing but them.
#
#     packages.sh [--cache TAR] [--keep] WORK        all of it: needs root, mmdebstrap and the package archive of the host
#     packages.sh --build WORK                       only build and look; WORK/packages has the .deb files then
#
# The packages are built without their own tests, of a copy of what git knows here. TAR: as in tests/tutorial/follow.sh.
# Exit code 77: skipped, and it says why.
set -euo pipefail

source=$(cd "$(dirname "$0")/../.." && pwd)

skip() {
    echo "skipped: $1"
    exit 77
}

fail() {
    echo "FAILED: $1"
    exit 1
}

# What the archive of a release would have.
copy_sources() {
    mkdir -p "$work/packages/varve"
    if git -C "$source" rev-parse >/dev/null 2>&1; then
        (cd "$source" && git ls-files -z -co --exclude-standard | tar -cf - --null -T -) | tar -xf - -C "$work/packages/varve"
    else
        tar -C "$source" --exclude='./build*' -cf - . | tar -xf - -C "$work/packages/varve"
    fi
}

build_packages() {
    local program missing
    for program in dpkg-buildpackage dh lintian; do
        command -v $program >/dev/null || skip "$program is missing (dpkg-dev, debhelper, lintian)"
    done
    missing=$(cd "$source" && dpkg-checkbuilddeps -Pnocheck 2>&1) || skip "$missing"
    copy_sources
    (cd "$work/packages/varve" && DEB_BUILD_OPTIONS="nocheck parallel=2" dpkg-buildpackage -b -us -uc -Pnocheck) \
        >"$work/build.log" 2>&1 || fail "dpkg-buildpackage: $(tail -n 20 "$work/build.log")"
    [ "$(find "$work/packages" -maxdepth 1 -name '*.deb' ! -name '*-dbgsym_*' | wc -l)" -eq "$(grep -c ^Package: "$source/debian/control")" ] ||
        fail "a package was not built"
    echo "built: $(cd "$work/packages" && echo *.deb | sed 's/_[^ ]*//g')"
}

# Errors and warnings count; the rest is for reading.
look() {
    lintian --fail-on error,warning "$work"/packages/*.changes >"$work/lintian.log" 2>&1 || fail "lintian: $(cat "$work/lintian.log")"
    echo "lintian: no error and no warning"
}

keep=()
cache=()
only_build=
while [ $# -gt 1 ]; do
    case $1 in
    --cache) cache=("$1" "$2") && shift 2 ;;
    --keep) keep=("$1") && shift ;;
    --build) only_build=1 && shift ;;
    *) break ;;
    esac
done
[ $# -eq 1 ] || { sed -n 's/^# \{0,1\}//; 2,9p' "$0"; exit 2; }
mkdir -p "$1"
work=$(realpath "$1")
rm -rf --one-file-system "$work/packages"
build_packages
look
[ -z "$only_build" ] || exit 0
mkdir -p "$work/debs"
rm -f "$work"/debs/*
find "$work/packages" -maxdepth 1 -name '*.deb' ! -name '*-dbgsym_*' -exec cp -t "$work/debs" {} +
code=0
"$source/tests/tutorial/follow.sh" --packages "$work/debs" "${cache[@]}" "${keep[@]}" "$work" || code=$?
[ ${#keep[@]} -gt 0 ] || rm -rf --one-file-system "$work/packages" "$work/debs"
exit $code
