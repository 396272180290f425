#!/bin/sh
# slices.sh FOLDER-OF-PROGRAMS: the slices of real campaigns (--list) are together all points, and no point is in two of them.
set -eu
export LC_ALL=C
programs=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

list() { # K/N PROGRAM OPTION...
    slice=$1 program=$2
    shift 2
    "$programs/$program" --seed 5 --list yes --slice "$slice" "$@" | sed -n 's/^point //p' | sort
}

check() { # PROGRAM OPTION...
    list 1/1 "$@" >"$folder/all"
    for k in 1 2 3; do
        list $k/3 "$@" >"$folder/$k"
        [ -s "$folder/$k" ] || { echo "$1: slice $k/3 is empty"; exit 1; }
    done
    sort "$folder"/[123] >"$folder/together"
    [ -z "$(uniq -d "$folder/together")" ] || { echo "$1: a point comes twice"; exit 1; }
}

compare() { # PROGRAM ALL TOGETHER
    diff "$2" "$3" || { echo "$1: the slices are not together all points"; exit 1; }
    echo "$1: $(wc -l <"$2") points, each in one of three slices"
}

for program in damage two-at-once; do
    check $program --points 200
    compare $program "$folder/all" "$folder/together"
done

# How many allocations the program makes differs a little from run to run; the first nine tenths are there in every run. A point is alloc:-1:NUMBER:...
check alloc-steps --points 0
most=$(($(wc -l <"$folder/all") * 9 / 10))
for name in all together; do
    awk -F : -v most=$most '$3 <= most' "$folder/$name" >"$folder/$name.sure"
done
compare alloc-steps "$folder/all.sure" "$folder/together.sure"
