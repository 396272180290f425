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
finish
