# What shells complete: verbs, options, names and versions. Each shell that is here really completes.
. "${SOURCE:?}/lib.sh"
make_store
tools=$SOURCE/../../tools/completions
run 0 complete ''
for command in ls show help; do
	has out "^$command\$"
done
"$VARVE" help | sed -n 's/^  \([a-z]*\)  .*/\1/p' >verbs
check "every verb of the help is offered" sh -c 'test -s verbs && ! grep -vxF -f out verbs'
run 0 complete un
printf 'undump\nunpin\nunlock\n' | is out
run 0 complete help fo
echo forget | is out
run 0 complete forget --keep
printf -- '--keep-last\n--keep-every\n' | is out
run 0 complete --ver
echo --version | is out
run 0 complete ls --ver
check "ls takes no --version" test ! -s out
run 0 complete ls ''
check "an address is for the shell" test ! -s out
run 0 complete ls --store ''
check "and so is a value" test ! -s out
run 0 complete show ck he
echo heat | is out
"$VARVE" ls ck heat --json >listed
"$PYTHON" -c 'import json
for line in open("listed"):
    row = json.loads(line)
    if row["message_type"] == "checkpoint":
        print("heat@%d" % row["version"])' >versions
check "there are versions" test -s versions
run 0 complete show ck heat@
same out versions
run 0 complete --store ck show heat@
same out versions
run 0 complete --store=ck show heat@
same out versions
VARVE_STORE=ck "$VARVE" complete show heat@ >out
same out versions
run 0 complete show nowhere h
check "no store, no names" test ! -s out
has_not err .

# Names that would command the terminal are not completed: CSI as one character, an override of the direction, no UTF-8.
echo data >file
for name in 'odd\302\233m' 'odd\342\200\256x' 'odd\377' 'odd\033[m' 'odd name' 'odd-\303\244'; do
	run 0 import odd "$(printf "$name")" file
done
run 0 complete show odd odd
printf 'odd-\303\244\n' | is out

# With the tool in the path as a user has it.
mkdir bin
ln -s "$VARVE" bin/varve
PATH=$WORK/bin:$PATH
cat >complete.bash <<'END'
# complete.bash SCRIPT LINE: as readline does it, which takes @ for the end of a word
. "$1"
[ "$(complete -p varve)" = "complete -o default -F _varve varve" ] || exit 1
COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDBREAKS=$' \t\n"\'@><=;|&(:'
_varve
printf '%s\n' "${COMPREPLY[@]}"
END
shown() {
	bash complete.bash "$tools/varve.bash" "$1" >out 2>err
}
if command -v bash >/dev/null; then
	shown 'varve un'
	printf 'undump\nunpin\nunlock\n' | is out
	shown 'varve show ck '
	has out '^heat$'
	shown 'varve show ck heat@'
	sed 's/heat@//' versions >expected
	same out expected
else
	echo "# skipped: bash is not here"
fi
if command -v fish >/dev/null; then
	cp "$tools/varve.fish" .
	HOME=$WORK fish -N -c 'source varve.fish; complete -C "varve un"' >out 2>err
	for verb in undump unpin unlock; do
		has out "^$verb"
	done
	HOME=$WORK fish -N -c 'source varve.fish; complete -C "varve show ck heat@"' >out 2>err
	check "fish completes versions" sh -c '! grep -vxF -f out versions'
else
	echo "# skipped: fish is not here"
fi
cat >zsh.py <<'END'
"""zsh.py LINE: what an interactive zsh shows when tab is pressed behind it."""
import os, pty, re, select, sys, time

child, terminal = pty.fork()
if child == 0:
    os.environ.update(TERM="dumb", PS1="> ", ZDOTDIR=os.getcwd(), COLUMNS="200", LINES="50")
    os.execvp("zsh", ["zsh", "-i"])

def read_until(pattern, seconds=20):
    text, end = b"", time.monotonic() + seconds
    while time.monotonic() < end and not re.search(pattern, text):
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 65536)
    return text

read_until(rb"ready>")
os.write(terminal, sys.argv[1].encode() + b"\t\t")
print(read_until(sys.argv[2].encode()).decode(errors="replace"))
os.kill(child, 9)
END
if command -v zsh >/dev/null; then
	mkdir functions
	cp "$tools/_varve" functions
	printf 'fpath=(%s/functions $fpath)\nautoload -Uz compinit\ncompinit -u -D\nPS1="ready>"\n' "$WORK" >.zshrc
	"$PYTHON" zsh.py 'varve und' 'undump' >out 2>err
	has out 'undump'
	"$PYTHON" zsh.py 'varve show ck hea' 'heat' >out 2>err
	has out 'heat'
else
	echo "# skipped: zsh is not here"
fi
finish
