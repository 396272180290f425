#!/bin/sh
# read-fine.sh MAKE_FINE VARVE READER: stores with fine runs, read by the tool and by the independent reader; older
# versions are forgotten and pruned in between, and what is left comes back. FINE_SEED repeats a run.
set -eu
make=$1 varve=$2 reader=$3
python=${PYTHON:-python3}
seed=${FINE_SEED:-$(date +%s)}
echo "seed $seed"
if [ -w /dev/shm ]; then base=/dev/shm; else base=${TMPDIR:-/tmp}; fi
dir=$(mktemp -d "$base/read-fine-XXXXXX")
trap 'rm -rf "$dir"' EXIT
count=0

# check STEP: every version that is expected, with the tool; with the reader, too, those that STEP divides, none if it is 0
check() {
    for file in "$dir"/expect/*; do
        base=${file##*/}
        version=${base%%.*}
        region=${base#*.}
        "$varve" restore "$dir/store" "fine@$version" "$region" -o "$dir/tool"
        cmp "$file" "$dir/tool"
        if [ "$1" -gt 0 ] && [ $((version % $1)) -eq 0 ]; then
            "$python" "$reader" restore "$dir/store" fine "$version" 0 "$region" -o "$dir/reader"
            cmp "$file" "$dir/reader"
        fi
        rm -f "$dir/tool" "$dir/reader"
        count=$((count + 1))
    done
    "$varve" verify "$dir/store" >"$dir/out" || { cat "$dir/out"; exit 1; }
    [ "$1" -eq 0 ] || "$python" "$reader" verify "$dir/store" >"$dir/out" || { cat "$dir/out"; exit 1; }
}

# forget VERSION...
forget() {
    for version; do
        "$varve" forget "$dir/store" "fine@$version" >"$dir/out" 2>&1 || { cat "$dir/out"; exit 1; }
        rm "$dir/expect/$version".*
    done
    "$varve" prune "$dir/store" >"$dir/out" 2>&1 || { cat "$dir/out"; exit 1; }
}

for settings in fine=64,codec=none fine=32,codec=lz4,capture=sync fine=512,fine_method=basic,codec=size; do
    rm -rf "$dir/store" "$dir/expect"
    "$make" "$dir" 1 6 "$seed" "$settings"
    check 0
    forget 1 2 4
    check 3
    "$make" "$dir" 7 9 "$seed" "$settings"
    forget 3 5 6 8
    check 0
    "$make" "$dir" 10 10 "$seed" "$settings"
    check 10
done
echo "$count regions read back"
