#!/bin/sh
# window.sh BENCH_ELASTIC [MIB]: a restart on other ranks takes no more memory than restart_window says, whatever the numbers
# of ranks are: 16 MiB here, beside the rank's part of the array.
set -u
here=$(dirname "$0")
bench=$1
size=${2:-256}
most=$((16 << 20))
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

run() {
    sh "$here/../../bench/ranks.sh" "$@"
}

run 1 "$bench" --save --size 1 "$folder"
[ $? = 77 ] && exit 77

failed=0
for pair in 1:8 2:4 4:2 8:1; do
    run "${pair%:*}" "$bench" --save --size "$size" "$folder" || exit 1
    for turn in "" --columns; do
        line=$(run "${pair#*:}" "$bench" --json --size "$size" $turn --settings restart_window=16M "$folder") || exit 1
        added=${line##*\"bytes_added\":}
        added=${added%\}}
        echo "$pair ranks ${turn:-by rows}: $added bytes beside the array, at most $most"
        [ "$added" -le "$most" ] || failed=1
    done
done
exit $failed
