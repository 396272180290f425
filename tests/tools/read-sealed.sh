#!/bin/sh
# read-sealed.sh VARVE READER STORE: the encrypted golden store holds what it must, for the tool and for the independent
# reader, which needs Python's cryptography; its key is in the file STORE.key.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
printf 'hello, varve\n' > "$dir/greeting"
"${PYTHON:-python3}" - "$dir/noise" <<'END'
import sys
x, out = 1, bytearray()
for _ in range(70000): # more than one frame
    x = x * 1103515245 + 12345 & 0x7fffffff
    out.append(x >> 16 & 255)
open(sys.argv[1], "wb").write(out)
END
cp -r "$3" "$dir/store"
SEALED_KEY=$(cat "$3.key")
export SEALED_KEY
if "$1" ls "$dir/store" 2> "$dir/err"; then exit 1; fi
grep -q "is encrypted: set key" "$dir/err"
for region in greeting noise; do
	VARVE_KEY=env:SEALED_KEY "$1" restore "$dir/store" tiny@1 $region -o "$dir/tool.$region"
	cmp "$dir/$region" "$dir/tool.$region"
done
VARVE_KEY=env:SEALED_KEY "$1" verify "$dir/store"
VARVE_KEY=env:SEALED_KEY "$1" key "$dir/store"
if "${PYTHON:-python3}" "$2" ls "$dir/store" 2> "$dir/err"; then exit 1; fi
grep -q "encrypted: --key is missing" "$dir/err"
"${PYTHON:-python3}" -c 'import cryptography' || exit 77
for region in greeting noise; do
	"${PYTHON:-python3}" "$2" restore "$dir/store" tiny 1 0 $region -o "$dir/reader.$region" --key env:SEALED_KEY
	cmp "$dir/$region" "$dir/reader.$region"
done
"${PYTHON:-python3}" "$2" verify "$dir/store" --key env:SEALED_KEY
