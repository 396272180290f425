#!/bin/sh
# example.sh CELLS_CL VARVE FOLDER MEBIBYTES: the example twice, the second time from the checkpoint of the first; and the store is whole.
set -e
cells=$1
varve=$2
folder=$3
size=$4
rm -rf "$folder"
mkdir -p "$folder"
trap 'rm -rf "$folder"' EXIT

code=0
"$cells" "$folder/store" "$size" 15 >"$folder/first" || code=$?
cat "$folder/first"
[ $code -eq 0 ] || exit $code
grep -q '^first run' "$folder/first"
"$cells" "$folder/store" "$size" 35 >"$folder/second"
cat "$folder/second"
grep -q '^restarted from step 10' "$folder/second"
grep -q 'after step 34' "$folder/second"
"$varve" verify "$folder/store"
# Of ten steps, each a hundredth of the cells: what is new is far from all of it.
new=$(sed -n 's/^checkpoint 30: .* \([0-9]*\) are new$/\1/p' "$folder/second")
[ "$new" -gt 0 ]
[ "$new" -lt $((size * 1048576 / 5)) ]
