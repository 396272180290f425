#!/bin/sh
# rounds.sh FOLDER [ROUNDS [SEED [LIVES]]]: what the gate samples of the tests labelled `capture`, many times. FOLDER
# has their programs. Snapshot truth in each way of capturing on 24 MiB; memory that vanishes without a word or after
# varve_release; a tenth as many lives of torture, each of which takes as long as fifty rounds; and all that a program
# lives through, LIVES times. A round of one program is a point; a life of torture in all ways and all that a program
# lives through are one each. Ends with 1 if anything failed, and says what was skipped.
set -u
folder=$1 rounds=${2:-1000} seed=${3:-1} lives=${4:-1}
points=0 skipped=0 failed=0

# try POINTS PROGRAM ARGUMENT...
try() {
    tried=$1 program=$2
    shift 2
    nice "$folder/$program" "$@"
    case $? in
    0) points=$((points + tried)) ;;
    77)
        echo "SKIPPED: $program $*"
        skipped=$((skipped + 1))
        ;;
    *)
        echo "FAILED: $program $*"
        failed=$((failed + 1))
        ;;
    esac
}

truth() { # SETTINGS MUST [OPTION...]
    settings=$1 must=$2
    shift 2
    try "$rounds" snapshot-truth --settings "$settings" --must "$must" --rounds "$rounds" --seed "$seed" \
        --mib 24 --limit 250MB "$@"
}

truth capture=auto,staging=64M staged,flight
truth capture=held,staging=1M held,flight
truth capture=held,staging=1M,order=address held,flight
truth capture=sync nothing
truth capture=trap,tracker=trap-uffd,staging=1M held,traps,flight
truth capture=trap,tracker=trap-uffd,staging=1M,order=address held,traps,flight
truth capture=trap,tracker=trap-mprotect,staging=1M held,traps,flight --flags no-kernel
truth capture=auto,staging=64M,tracker=scan staged,flight
truth capture=held,staging=1M,tracker=scan held,flight
truth capture=auto,staging=64M,tracker=softdirty staged,flight
truth capture=held,staging=1M,tracker=softdirty flight
truth capture=frozen,staging=1M,tracker=softdirty frozen,flight
truth capture=auto,staging=64M,tracker=none staged,flight
truth capture=auto,staging=1M,tracker=none flight
truth capture=held,staging=1M,tracker=trap-uffd held,flight
truth capture=held,staging=1M,tracker=trap-mprotect flight --flags no-kernel
truth capture=auto,staging=1M flight
truth capture=auto,staging=1M flight --nobody
truth capture=frozen,staging=1M frozen,flight
truth capture=frozen,staging=1M,order=address frozen,flight
truth capture=frozen,staging=1M,tracker=none,order=address frozen,flight
truth capture=frozen,staging=1M,tracker=trap-uffd frozen,traps,flight
truth capture=frozen,staging=1M,tracker=trap-mprotect frozen,flight --flags no-kernel
truth capture=frozen,staging=1M frozen,flight --nobody

frozen=capture=frozen,staging=512K
held=capture=held,staging=512K
trap=capture=trap,staging=512K
some=$(((rounds + 4) / 5))
vanish() { # SETTINGS ROUNDS [OPTION...]
    settings=$1 count=$2
    shift 2
    try "$count" vanishing --settings "$settings" --rounds "$count" --seed "$seed" "$@"
}
vanish $frozen "$rounds" --must-hold
vanish $frozen,tracker=none "$rounds" --must-hold
vanish $frozen "$rounds" --must-hold --nobody
vanish $held "$rounds" --must-hold
vanish capture=auto,staging=512K $some
vanish capture=auto,staging=512K $some --nobody
vanish capture=sync $some

try "$rounds" releasing --settings $held --must-hold --rounds "$rounds"
try $some releasing --settings $held,tracker=none --must-hold --rounds $some
try $some releasing --settings capture=auto,staging=64M --rounds $some
try $some releasing --settings $frozen --must-hold --rounds $some
try $some releasing --settings $trap,tracker=trap-uffd --must-hold --rounds $some
try $some releasing --settings $trap,tracker=trap-mprotect --must-hold --flags no-kernel --rounds $some

try $(((rounds + 9) / 10)) torture --lives $(((rounds + 9) / 10)) --seed "$seed"

while [ "$lives" -gt 0 ]; do
    lives=$((lives - 1))
    try 1 living --settings capture=auto,staging=64M
    try 1 living --settings $held,tracker=trap-uffd --must-hold
    try 1 living --settings capture=sync
    try 1 living --settings $trap,tracker=trap-uffd --must-hold
    try 1 living --settings $trap,tracker=trap-mprotect --must-hold --flags no-kernel
    try 1 living --settings $frozen --must-hold
    try 1 living --settings $frozen,tracker=none --must-hold
    try 1 living --settings $frozen --must-hold --nobody
    try 1 living --settings capture=auto,staging=512K --must-hold --nobody
    try 1 living --settings $held,tracker=scan
    try 1 living --settings $held,tracker=none
    try 1 overcommit --settings capture=auto,staging=512K
    try 1 overcommit --settings capture=auto,staging=512K --nobody
    try 1 overcommit --settings $frozen --must-hold --nobody
done
echo "capture: $points points, $failed programs failed, $skipped could not be tried here"
[ $failed -eq 0 ]
