# Colours are for terminals, and only where they are wanted.
. "${SOURCE:?}/lib.sh"
make_store
cat >on-terminal.py <<'END'
import os, pty, subprocess, sys
ours, theirs = pty.openpty()
process = subprocess.Popen([os.environ["VARVE"]] + sys.argv[1:], stdout=theirs)
os.close(theirs)
with open("out", "wb") as out:
    try:
        while piece := os.read(ours, 4096):
            out.write(piece.replace(b"\r\n", b"\n"))
    except OSError: # how a terminal ends
        pass
process.wait()
END
on_terminal() {
	"$PYTHON" on-terminal.py "$@" </dev/null 2>err
}
escape=$(printf '\033')
TERM=xterm
export TERM
unset NO_COLOR
run 0 ls ck
has_not out "$escape"
cp out plain
run 0 show ck heat
has_not out "$escape"
for arguments in "ls ck" "show ck heat"; do
	# shellcheck disable=SC2086
	on_terminal $arguments
	has out "$escape\[1m"
done
on_terminal ls ck
sed "s/$escape\[[0-9]*m//g" out >without
same without plain
NO_COLOR=1 on_terminal ls ck
same out plain
NO_COLOR='' on_terminal ls ck
has out "$escape\[1m"
TERM=dumb on_terminal ls ck
same out plain
on_terminal ls ck --json
has_not out "$escape"

# A damaged checkpoint is red.
record=$(find ck/n/heat/record -type f | sort | head -n 1)
printf x | dd of="$record" bs=1 seek=40 conv=notrunc 2>dd.err
on_terminal ls ck
has out "$escape\[31mdamaged$escape\[0m"
run 20 ls ck
has out ' damaged '
finish
