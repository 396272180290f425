#!/bin/sh
# scale.sh PROGRAM RANKS [ARGUMENT...]: run bench-scale-simulated on so many simulated ranks, 32 (SCALE_NODE) to a node. 77 without
# SimGrid.
#
# The prices: a message keeps its sender busy for 1 us and its bytes at 12.5 GB/s, is under way for 1 us, and keeps its receiver
# busy as long as its sender (scale_wait.c); within a node, too. Links have no limits of their own: SimGrid's model of a network in
# which they do takes milliseconds for each message of a thousand ranks.
#
# SCALE_COMPUTE adds what the program computes: ns per byte, or "measured" (scale_wait.c; give it --rounds 10 and few ranks). Otherwise
# computing takes no time. But for what is measured, the result is the same whenever it is run.
set -u
if ! command -v smpirun >/dev/null || [ ! -x "$1" ]; then
    echo "skipped: there is no smpirun, or there was no smpicc (SimGrid)"
    exit 77
fi
program=$1 ranks=$2
shift 2
folder=$(mktemp -d "${TMPDIR:-/tmp}/scale-XXXXXX") || exit 2
trap 'rm -rf "$folder"' EXIT

awk -v ranks="$ranks" -v each="${SCALE_NODE:-32}" 'BEGIN {
    print "<?xml version=\"1.0\"?>"
    print "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
    print "<platform version=\"4.1\"><zone id=\"all\" routing=\"None\">"
    for (node = 0; node * each < ranks; node++)
        print "<host id=\"n" node "\" speed=\"1Gf\" core=\"32\"/>"
    print "</zone></platform>"
}' >"$folder/platform.xml"
awk -v ranks="$ranks" -v each="${SCALE_NODE:-32}" 'BEGIN { for (i = 0; i < ranks; i++) print "n" int(i / each) }' >"$folder/hosts"

# No privatisation: all ranks are one image of the program, which keeps nothing of a rank in global variables. Reductions of the
# benchmark's own, outside what is measured, by recursive doubling: SMPI's usual ones send P x P messages.
timeout -k 5 "${SCALE_SECONDS:-3600}" smpirun -np "$ranks" -no-privatize \
    -platform "$folder/platform.xml" -hostfile "$folder/hosts" --log=root.thres:critical \
    --cfg=network/model:Constant --cfg=network/latency-factor:0 --cfg=smpi/wtime:0 \
    --cfg=smpi/os:0:1e-6:8e-11 --cfg=smpi/ois:0:1e-6:8e-11 --cfg=smpi/send-is-detached-thresh:0 \
    --cfg=smpi/simulate-computation:no --cfg=smpi/allreduce:rdb --cfg=contexts/stack-size:256 --cfg=contexts/guard-size:0 \
    "$program" "$@"
