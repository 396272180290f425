# How far long work is, and how it is stopped: a store that answers slowly makes it long.
. "${SOURCE:?}/lib.sh"
make_store
cat >slow.py <<'END'
"""slow.py HOW ARGUMENTS...: run varve with stderr on a terminal (HOW=terminal), or interrupt it after half a second (HOW=interrupt)."""
import os, pty, signal, subprocess, sys, time

signal.signal(signal.SIGINT, signal.default_int_handler)
command = [os.environ["VARVE"]] + sys.argv[2:]
if sys.argv[1] == "terminal":
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while True:
            piece = os.read(ours, 4096)
            if not piece:
                break
            shown += piece
    except OSError:
        pass
    open("shown", "wb").write(shown)
else:
    process = subprocess.Popen(command)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
sys.exit(process.wait())
END

"$PYTHON" slow.py terminal verify 'ck?latency=2ms' >out 2>err
check "verify on a terminal succeeds" test $? -eq 0
check "it shows how far it is" grep -q 'verifying [0-9]* %, .* of .*/s, [0-9]* s left' shown
has out 'no damage found$'
"$PYTHON" slow.py terminal ls 'ck?latency=50ms' >out 2>err
check "ls on a terminal succeeds" test $? -eq 0
check "it shows how many there are so far" grep -q 'listing [0-9]* checkpoints, [0-9]*/s' shown
has out '^heat '
"$VARVE" verify 'ck?latency=8ms' --json >out 2>err
check "verify with --json succeeds" test $? -eq 0
has_not err .
json 'len(of("status")) >= 1 and all(0 <= s["percent_done"] <= 1 for s in of("status"))'

"$PYTHON" slow.py interrupt verify 'ck?latency=20ms' >out 2>err
check "an interrupt ends verify with 130" test $? -eq 130
has err '^varve: interrupted'
"$PYTHON" slow.py interrupt restore 'ck?latency=80ms' heat temperature -o got >out 2>err
check "an interrupt ends restore with 130" test $? -eq 130
check "and leaves no file" test ! -e got -a -z "$(find . -name "*.partial")"

steps='[0-9]* %, [0-9]* of [0-9]* steps, [0-9]*/s, [0-9]* s left'
for verb in prune repair; do
	case $verb in prune) doing=pruning ;; *) doing=repairing ;; esac
	"$PYTHON" slow.py interrupt $verb 'ck?latency=40ms' >out 2>err
	check "an interrupt ends $verb with 130" test $? -eq 130
	has err '^varve: interrupted'
	"$PYTHON" slow.py terminal $verb 'ck?latency=10ms' >out 2>err
	check "$verb on a terminal succeeds" test $? -eq 0
	check "it shows how far it is" grep -q "$doing $steps" shown
	"$PYTHON" slow.py terminal $verb 'ck?latency=10ms' --json >out 2>err
	check "$verb with --json succeeds" test $? -eq 0
	check "then the terminal shows nothing" test ! -s shown
	run 0 $verb 'ck?latency=10ms'
	has_not err .
done
"$PYTHON" slow.py interrupt forget 'ck?latency=60ms' --all-names --keep-last 1 -n >out 2>err
check "an interrupt ends forget with 130" test $? -eq 130
has err '^varve: interrupted'
"$PYTHON" slow.py terminal forget 'ck?latency=20ms' --all-names --keep-last 1 >out 2>err
check "forget on a terminal succeeds" test $? -eq 0
check "it shows how many it has chosen from" grep -q 'choosing [0-9]* %, [0-9]* of 4 checkpoints, [0-9]*/s, [0-9]* s left' shown
check "it shows how many it has forgotten" grep -q 'forgetting [0-9]* %, [0-9]* of [12] checkpoints, [0-9]*/s, [0-9]* s left' shown
has out '^forget heat@200 '
run 0 prune ck
run 0 verify ck
has out '^2 checkpoints, .*no damage found$'
finish
