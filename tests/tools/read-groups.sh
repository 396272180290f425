#!/bin/sh
# read-groups.sh MAKE_GROUPS VARVE READER: packs of several ranks, and bytes that another writer keeps, read by the tool and by the independent reader.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$1" "$dir"
python=${PYTHON:-python3}
say() {
    echo "$*" >&2
    exit 1
}
count=0
for file in "$dir"/expect/*; do
    base=${file##*/}
    version=${base%%.*}
    region=${base##*.}
    rank=${base#*.}
    rank=${rank%.*}
    "$2" restore "$dir/store" "data@$version" "$region" --rank "$rank" -o "$dir/tool"
    cmp "$file" "$dir/tool"
    rm "$dir/tool"
    case $base in
    [12].[12].v | 2.[05].u) # moved, or in small turns; the others are looked at by its verify
        "$python" "$3" restore "$dir/store" data "$version" "$rank" "$region" -o "$dir/reader"
        cmp "$file" "$dir/reader"
        rm "$dir/reader"
        ;;
    esac
    count=$((count + 1))
done
[ "$count" -eq 24 ] || say "$count regions"
"$2" verify "$dir/store"
"$python" "$3" verify "$dir/store" >"$dir/out" || { cat "$dir/out"; exit 1; }

"$2" ls "$dir/store" data >"$dir/out"
[ "$(grep -c '^data  *[12]  *1 .*  6  *12  ' "$dir/out")" -eq 2 ] || { cat "$dir/out"; say "ls does not show 6 ranks twice"; }
"$2" show "$dir/store" data@2 --long >"$dir/out"
[ "$(grep -c '^ *[0-5] *[uv] ' "$dir/out")" -eq 12 ] || { cat "$dir/out"; say "show does not show 12 regions"; }
"$2" show "$dir/store" data@1 v --rank 2 >"$dir/out" # in three pieces, of two packs
"$2" diff "$dir/store" data@1 data@2 --quick --json >"$dir/out" || [ $? -eq 1 ]
"$python" - "$dir/out" <<'PY' || { cat "$dir/out"; exit 1; }
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
rows = [row for row in rows if row.get("message_type") == "difference"]
got = sorted((row["rank"], row["region"], row["bytes_changed"]) for row in rows)
assert got == sorted([(rank, "u", 4096) for rank in range(6)] + [(rank, "v", 0) for rank in range(6)]), got
PY

# One byte of a block that holds bytes of several ranks: both name the pack, and the tool who is concerned.
pack=$dir/store/n/data/data/00000001/0000000000000001/00000000/00000001
printf '\377' | dd of="$pack" bs=1 seek=300 conv=notrunc 2>"$dir/dd"
"$2" verify "$dir/store" >"$dir/out" 2>&1 && say "verify found nothing"
grep -q '"u" of rank 3, "u" of rank 4, "u" of rank 5' "$dir/out" || { cat "$dir/out"; say "nobody is named"; }
"$python" "$3" verify "$dir/store" >"$dir/out" 2>&1 && say "the reader found nothing"
echo "$count regions read back"
