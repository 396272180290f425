#!/bin/sh
# read-back.sh WRITE_STORE READER: every region of every version, written by the library, read by the independent reader.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$1" "$dir"
python=${PYTHON:-python3}
count=0
for file in "$dir"/expect/*; do
    base=${file##*/}
    "$python" "$2" restore "$dir/store" 'odd name/%ä' "${base%%.*}" 0 "${base#*.}" -o "$dir/got"
    cmp "$file" "$dir/got"
    count=$((count + 1))
done
"$python" "$2" verify "$dir/store" > "$dir/verify" || { cat "$dir/verify"; exit 1; }
echo "$count regions read back"
