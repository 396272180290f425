#!/bin/sh
# A list of so many writers that it has pages: the independent reader checks it, notices a wrong byte in its second page and
# does without the list; repair makes the same list again from the packs.
#     read-many.sh MAKER VARVE READER
set -eu
maker=$1 varve=$2 reader=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$maker" "file://$folder/store"
python3 "$reader" verify "$folder/store" | grep -q '1 of 1 checkpoints can be restored; 0 problems'

list=$(find "$folder/store" -name writers)
cp "$list" "$folder/list"
python3 - "$list" <<'END'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(104 + 2 * 16 + 530 * 64)
    byte = file.read(1)[0]
    file.seek(-1, 1)
    file.write(bytes([byte ^ 1]))
END
python3 "$reader" verify "$folder/store" >"$folder/said" 2>&1 || true
grep -q 'wrong digest of page 1; rebuilt from the footers' "$folder/said"
if "$varve" verify "$folder/store" >/dev/null 2>&1; then
    echo "verify did not notice the damage" >&2
    exit 1
fi
"$varve" repair "$folder/store"
"$varve" verify "$folder/store"
cmp "$folder/list" "$list"
