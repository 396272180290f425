#!/bin/sh
# read-tiny.sh VARVE READER STORE: the golden store holds what it must, for the tool and for the independent reader.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
printf 'hello, varve\n' > "$dir/expect"
cp -r "$3" "$dir/store"
"$1" restore "$dir/store" tiny@1 greeting -o "$dir/tool"
cmp "$dir/expect" "$dir/tool"
"${PYTHON:-python3}" "$2" restore "$dir/store" tiny 1 0 greeting -o "$dir/reader"
cmp "$dir/expect" "$dir/reader"
"$1" verify "$dir/store"
