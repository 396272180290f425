#!/bin/sh
# rounds.sh SNAPSHOT-TRUTH [ROUNDS [SEED]]: many rounds of each way of capturing, in turn, on 24 MiB. Ends with the
# number of ways that failed.
set -u
program=$1 rounds=${2:-1000} seed=${3:-1}
failed=0

try() { # SETTINGS MUST [OPTION...]
    settings=$1 must=$2
    shift 2
    nice "$program" --settings "$settings" --must "$must" --rounds "$rounds" --seed "$seed" --mib 24 --limit 250MB "$@"
    case $? in
    0 | 77) ;;
    *) failed=$((failed + 1)) ;;
    esac
}

try capture=auto,staging=64M staged,flight
try capture=held,staging=1M held,flight
try capture=held,staging=1M,order=address held,flight
try capture=sync nothing
try capture=trap,tracker=trap-uffd,staging=1M held,traps,flight
try capture=trap,tracker=trap-uffd,staging=1M,order=address held,traps,flight
try capture=trap,tracker=trap-mprotect,staging=1M held,traps,flight --flags no-kernel
try capture=auto,staging=64M,tracker=scan staged,flight
try capture=held,staging=1M,tracker=scan held,flight
try capture=auto,staging=64M,tracker=none staged,flight
try capture=auto,staging=1M,tracker=none flight
try capture=held,staging=1M,tracker=trap-uffd held,flight
try capture=held,staging=1M,tracker=trap-mprotect flight --flags no-kernel
try capture=auto,staging=1M flight
try capture=frozen,staging=1M frozen,flight
try capture=frozen,staging=1M,tracker=none,order=address frozen,flight
try capture=frozen,staging=1M frozen,flight --nobody
echo "$failed ways of capturing failed"
exit $failed
