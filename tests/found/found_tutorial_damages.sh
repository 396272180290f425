# The tutorial's damage went to byte 20000 of a file of 18,738 bytes: nothing stored was damaged, and the check of the tutorial
# passed all the same. Its commands must change bytes of the file, and the check must fail where the text is not true.
set -u
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT
cd "$WORK" || exit 1
export HOME="$WORK"
shown() { python3 "$SOURCE/tests/tutorial/shown.py" "$@" >out 2>&1; }

fail() {
	echo "$1"
	cat out err 2>/dev/null
	exit 1
}

head -c 18000 /dev/urandom >noise
"$VARVE" import ck waves@1000 noise 2>err || fail "no store"
file=$(ls -d ck/n/waves/data/*/00000000000003e8/00000000/00000000)
cp "$file" before
sed -n '/^damaged=/,/^printf .damage/p' "$SOURCE/docs/tutorial.md" >commands
[ -s commands ] || fail "the tutorial has no such commands"
bash -e commands 2>err || fail "the tutorial's commands failed"
[ "$(stat -c %s before)" -eq "$(stat -c %s "$file")" ] || fail "the file has grown: its bytes are as they were"
[ "$(cmp -l before "$file" | wc -l)" -ge 1 ] || fail "nothing was damaged"
"$VARVE" verify ck >out 2>err
[ $? -eq 20 ] || fail "verify does not find it"

# The check itself.
printf '# x\n\n```sh\nrun\n```\n\n```text\nskipped waves@1000: ...\nrestarted from step 900\nwaves  96.0 KiB  lz4\n...\n```\n' >text.md
printf 'skipped waves@1000: a sum\nrestarted from step 900\nwaves 1.5 MiB zstd\n' >told
shown text.md told || fail "what is true is refused"
for wrong in 's/step 900/step 800/' 's/waves@1000/waves@900/' 's/^restarted.*//' 's/MiB zstd/MiB/'; do
	sed "$wrong" told >other
	shown text.md other && fail "what is not true is accepted: $wrong"
done
: >nothing
shown text.md nothing && fail "nothing was printed, and that is accepted"
exit 0
