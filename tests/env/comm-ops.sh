#!/bin/sh
# comm-ops.sh PROGRAM: with 1, 2, 3, 5, 8 and 13 ranks; with one machine standing for several nodes; over IPv6, at 127.0.1.1, by name, and with a secret.
set -u
here=$(dirname "$0")
unset VARVE_DOMAIN VARVE_PORT VARVE_SECRET VARVE_SECRET_FILE MASTER_ADDR MASTER_PORT
has_six=$(cat /proc/sys/net/ipv6/conf/lo/disable_ipv6 2>/dev/null || echo 1)
for run in 1: 2: 3: 5: 8: 13: 7:uneven 6:rows 6:robin 3:some 3:six 3:alias 3:name 3:host 3:secret; do
    ranks=${run%%:*} layout=${run#*:}
    MASTER_ADDR=127.0.0.1 VARVE_SECRET=
    case $layout in
    six) [ "$has_six" = 0 ] || { echo "no IPv6 here"; continue; }
         MASTER_ADDR=::1 ;;
    alias) MASTER_ADDR=127.0.1.1 ;; # as Debian has it for the name of a host
    name) MASTER_ADDR=localhost ;;
    host) MASTER_ADDR=$(hostname) ;;
    secret) VARVE_SECRET=0123456789abcdef0123 ;;
    esac
    export MASTER_ADDR VARVE_SECRET
    if ! timeout -k 5 60 sh "$here/ranks.sh" -n "$ranks" "$1" $layout; then
        echo "FAILED with $ranks ranks${layout:+, $layout}" >&2
        exit 1
    fi
done
