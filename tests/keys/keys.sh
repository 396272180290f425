# Encrypted stores, seen by a user: keys of all sources, wrong and missing ones, a key that is changed, damage to the keys,
# objects that the owner of the storage exchanges; and that no object has anything readable.
. "${SOURCE:?}/lib.sh"

# key NUMBER: a key.
key() {
	printf '%064x\n' "$1"
}
# sums FOLDER: every file in it, with its bytes.
sums() {
	find "$1" -type f ! -path '*/.reserve,/*' -exec sha256sum {} + | sort
}
# unchanged: ck is as it was when `sums ck >before` was called.
unchanged() {
	sums ck >after
	same before after
}
# plainly ARGUMENTS...: without encryption and keys.
plainly() {
	env -u VARVE_ENCRYPT -u VARVE_KEY "$@"
}

umask 077
key 1 >one.key
key 2 >two.key
key 3 >three.key
VARVE_ENCRYPT=on
VARVE_KEY=file:$WORK/one.key
export VARVE_ENCRYPT VARVE_KEY

# A life.
mkdir files wanted plain
head -c 300000 /dev/urandom >files/noise
for i in 1 2 3; do # a marker alone between noise, which no codec makes smaller
	{ head -c 50000 /dev/urandom; printf 'MARKER-OF-CONTENT'; head -c 50000 /dev/urandom; } >files/MARKER-OF-NAME-$i
done
check "a store is made" "$MAKE_STORE" ck wanted
run 0 import ck marked -C files .
run 0 ls ck
has out 'heat  *3'
run 0 verify ck
has out 'no damage found'
run 0 restore ck heat@200 temperature -o got
same got wanted/200.temperature
run 0 pin ck heat@200 --reason MARKER-OF-REASON
run 0 forget ck heat@100
run 0 prune ck
run 0 compact ck heat
run 0 verify ck
has out 'no damage found'
rm got
run 0 restore ck heat@200 steps -o got
same got wanted/200.steps
check "a session restarts" "$MAKE_STORE" --again ck heat
run 0 key ck
has out '^encrypted: both'

# Nothing is readable: neither content nor names of regions and files, programs, or reasons. The same store without
# encryption has all of them, so that this test can find them.
check "a store without encryption" plainly "$MAKE_STORE" plain/ck plain
plainly "$VARVE" import plain/ck marked -C files . >/dev/null 2>&1
plainly "$VARVE" pin plain/ck heat@200 --reason MARKER-OF-REASON >/dev/null 2>&1
head -c 24 wanted/300.temperature >content
for marker in MARKER-OF-CONTENT MARKER-OF-NAME MARKER-OF-REASON temperature make-store; do
	check "without encryption: $marker" grep -rqaF -e "$marker" plain/ck
	if grep -rqaF -e "$marker" ck; then fail "$marker is readable"; else pass "$marker is not readable"; fi
done
check "content is not readable" "$PYTHON" - <<'END'
import pathlib
marker = pathlib.Path("content").read_bytes()
has = lambda folder: any(marker in path.read_bytes() for path in pathlib.Path(folder).rglob("*") if path.is_file())
assert has("plain/ck") and not has("ck")
END

# The same of attributes, and of the host in claims and pins. Nothing hides by being compressed.
as_host() {
	unshare --user --map-root-user --uts sh -c 'hostname MARKER-OF-HOST && exec "$@"' sh "$@"
}
as_host true 2>/dev/null || as_host() { unshare --uts sh -c 'hostname MARKER-OF-HOST && exec "$@"' sh "$@"; }
hosts=MARKER-OF-HOST
as_host true 2>/dev/null || {
	as_host() { "$@"; }
	hosts=
	echo "# hosts are not looked for: no host can have another name here"
}
check "markers, encrypted" as_host env VARVE_CODEC=none "$MAKE_STORE" --marked marked
check "markers" as_host env -u VARVE_ENCRYPT -u VARVE_KEY VARVE_CODEC=none "$MAKE_STORE" --marked plain/marked
for store in marked plain/marked; do
	VARVE_ENCRYPT=off check "a pin of $store" as_host "$VARVE" pin $store marked@1
done
for marker in MARKER-OF-ATTRIBUTE MARKER-OF-VALUE MARKER-OF-REGION $hosts; do
	check "without encryption: $marker" grep -rqaF -e "$marker" plain/marked
	if grep -rqaF -e "$marker" marked; then fail "$marker is readable"; else pass "$marker is not readable"; fi
done
if [ "$hosts" ]; then
	for kind in claim pin; do
		check "without encryption: the host of a $kind" sh -c "find plain/marked -path '*/$kind*' -type f | xargs grep -laF $hosts"
	done
fi
rm -r marked plain/marked

# Wrong, missing and bad keys: said, and nothing changes.
sums ck >before
VARVE_KEY=file:$WORK/two.key
for command in ls verify prune key 'forget ck heat@300' 'compact ck heat'; do
	set -- $command
	test $# -gt 1 && run 1 "$@" || run 1 "$1" ck
	has err 'encrypted with another key than the one given'
done
"$MAKE_STORE" --again ck heat >out 2>err && fail "a session with the wrong key" || pass "a session with the wrong key fails"
has err 'KEY: .*encrypted with another key.*nothing was changed'
unset VARVE_KEY
run 1 ls ck
has err 'encrypt=on needs a key'
plainly "$VARVE" ls ck >out 2>err && fail "ls without a key" || pass "ls without a key fails"
has err 'varve: is encrypted: set key'
plainly "$MAKE_STORE" --again ck heat >out 2>err && fail "a session without a key" || pass "a session without a key fails"
has err 'KEY: .*is encrypted: set key'
unchanged
key 1 | cut -c 2- >short.key
key 1 >open.key
chmod 644 open.key
secret=$(key 1)
for bad in file:"$WORK/short.key" file:"$WORK/open.key" file:"$WORK/none" env:NONE 'command:exit 3' command:true \
	"command:echo $secret$secret"; do
	VARVE_KEY=$bad "$VARVE" ls ck >out 2>err && fail "key=$bad" || pass "key=$bad is refused"
	case $bad in *"$secret"*) ;; *) has_not err "$secret" ;; esac
done
VARVE_KEY=words run 1 ls ck
unchanged
SECRET=$secret VARVE_KEY=env:SECRET run 0 ls ck
chmod 640 open.key
VARVE_KEY=file:$WORK/open.key run 0 ls ck
chmod 620 open.key
VARVE_KEY=file:$WORK/open.key run 1 ls ck
has err 'may read or write it'
# The command of the guide: readable to nobody else at any moment, and never over a key that is there.
guide() {
	(umask 022; HOME=$WORK; eval "$(grep '^(umask 077; set -C; openssl' "$SOURCE/../../docs/guide.md")")
}
if command -v openssl >/dev/null; then
	check "the command of the guide" guide
	check "its key is for the owner alone" test "$(stat -c %a .varve.key)" = 600
	cp .varve.key kept.key
	guide 2>/dev/null && fail "it writes over a key" || pass "it does not write over a key"
	same .varve.key kept.key
	VARVE_KEY=file:$WORK/.varve.key run 1 ls ck
	has err 'another key'
fi
VARVE_KEY="command:cat $WORK/one.key" run 0 ls ck
VARVE_KEY=file:$WORK/one.key
export VARVE_KEY

# No mixing: a plain store stays plain, and a folder with other files stays as it is.
sums plain/ck >before
run 1 ls plain/ck
has err 'it is not encrypted, and encrypt=on does not make it so'
"$MAKE_STORE" --again plain/ck heat >out 2>err && fail "encrypt=on on a plain store" || pass "encrypt=on on a plain store fails"
sums plain/ck >after
same before after
VARVE_ENCRYPT=off run 0 ls plain/ck
"$MAKE_STORE" files wanted >out 2>err && fail "a folder of others" || pass "a folder of others is refused"
check "and gets nothing" test ! -e files/keys
VARVE_ENCRYPT=off run 0 ls ck

# Copies: from plain to encrypted, from encrypted to a new store and to one that is there; never to a plain one.
run 0 copy plain/ck heat@200 copies --dry-run
check "a dry run makes nothing" test ! -e copies
run 0 copy plain/ck heat@200 copies
run 0 copy ck heat@200 copies from-ck
VARVE_ENCRYPT=off run 0 copy ck heat@300 copies from-ck
run 0 copy ck heat@300 copies-new
for store in copies copies-new; do
	run 0 verify $store
	plainly "$VARVE" ls $store >out 2>err && fail "$store is plain" || pass "$store is encrypted"
	has err 'is encrypted: set key'
	if grep -rqaF -e temperature $store; then fail "$store is readable"; else pass "$store is not readable"; fi
done
for name in heat from-ck; do
	rm -f got
	run 0 restore copies $name@200 temperature -o got
	same got wanted/200.temperature
done
rm -f got
run 0 restore copies-new heat@300 temperature -o got
same got wanted/300.temperature
sums plain/ck >before
for encrypt in on off; do
	VARVE_ENCRYPT=$encrypt run 1 copy ck heat@300 plain/ck from-ck
	has err 'not encrypted\|is encrypted, and plain/ck is not'
done
for flag in '' --dry-run; do
	VARVE_ENCRYPT=off run 1 copy ck heat@300 none $flag
	has err 'is encrypted, and none is not, or would not be: .*encrypt=on'
done
check "and no store is made" test ! -e none
sums plain/ck >after
same before after
VARVE_ENCRYPT=off run 0 copy plain/ck heat@300 plain/other
plainly "$VARVE" verify plain/other >out 2>err && pass "plain to plain" || fail "plain to plain"
# A tier that shall be encrypted gets nothing from a store that is not: somebody may have put that there.
run 1 flush plain/ck heat --to flushed
has err 'is not encrypted'
check "and no tier is made" test ! -e flushed
run 0 flush ck heat --to flushed
rm -r flushed
VARVE_KEY=file:$WORK/two.key run 1 copy plain/ck heat@300 copies again
has err 'encrypted with another key'
rm -r copies copies-new plain/other

# A store that is begun, and whose maker dies.
for point in storage.keys.before_make storage.keys.between_make store.open.before_create; do
	VARVE_FAULT=$point=kill "$MAKE_STORE" begun wanted >/dev/null 2>&1 && fail "killed at $point" || pass "killed at $point"
	VARVE_KEY=file:$WORK/one.key check "made after $point" "$MAKE_STORE" begun wanted
	run 0 key begun
	run 0 verify begun
	rm -r begun
done

# A store that somebody has emptied is begun anew, encrypted.
check "a store" "$MAKE_STORE" begun wanted
rm -r begun/n begun/varve begun/keys
check "a store again" "$MAKE_STORE" begun wanted
plainly "$VARVE" ls begun >out 2>err && fail "it is plain now" || pass "it is encrypted again"
rm -r begun

# The key is changed; killed at each step, one of the two opens the store at any moment, and doing it again completes it.
opens() {
	VARVE_KEY=file:$WORK/$1.key "$VARVE" ls ck >/dev/null 2>&1
}
sums ck/n >before
VARVE_FAULT=storage.keys.before_change=kill "$VARVE" key ck change "file:$WORK/two.key" >out 2>&1
check "nothing has begun: the old key opens" opens one
opens two && fail "the new one does, too" || pass "the new one does not"
VARVE_FAULT=storage.keys.between_change=kill "$VARVE" key ck change "file:$WORK/two.key" >out 2>&1
check "half done: the old key opens" opens one
check "half done: the new key opens" opens two
run 0 ls ck
has err 'second key, keys/1: .*finish that'
run 1 key ck
has err 'keys/0 is for another key'
run 0 key ck change "file:$WORK/two.key"
check "done: the new key opens" opens two
opens one && fail "the old key still opens" || pass "the old key does not open any more"
VARVE_KEY=file:$WORK/two.key VARVE_FAULT=storage.keys.between_change=error:5 run 1 key ck change "file:$WORK/three.key"
VARVE_KEY=file:$WORK/three.key run 0 key ck change "file:$WORK/three.key"
VARVE_KEY=file:$WORK/three.key run 0 key ck
opens two && fail "the key in between opens" || pass "the key in between does not open"
VARVE_KEY=file:$WORK/three.key run 0 key ck change "file:$WORK/one.key"
run 0 verify ck
sums ck/n >after
same before after
VARVE_ENCRYPT=off run 1 key plain/ck change "file:$WORK/two.key"
has err 'is not encrypted'

# Damage to the keys: one copy is enough, and the change of a key mends the other.
cp ck/keys/0 saved
printf X | dd of=ck/keys/0 bs=1 seek=120 conv=notrunc 2>/dev/null
run 0 ls ck
has err 'keys/0 is damaged'
run 20 key ck
run 20 verify ck
has out 'keys/0 is damaged'
run 0 key ck change "file:$WORK/one.key"
run 0 key ck
rm ck/keys/1
run 0 ls ck
run 1 key ck
has err 'keys/1'
run 20 verify ck
has out 'keys/1'
run 0 key ck change "file:$WORK/one.key"
run 0 key ck
cp -r ck/keys kept
printf X | dd of=ck/keys/0 bs=1 seek=120 conv=notrunc 2>/dev/null
printf X | dd of=ck/keys/1 bs=1 seek=120 conv=notrunc 2>/dev/null
run 20 ls ck
has err 'the keys of the store .* cannot be read'
rm -r ck/keys
sums ck >before
run 1 ls ck
has err 'has no keys'
"$MAKE_STORE" --again ck heat >out 2>err && fail "keys are gone" || pass "a session without keys fails"
unchanged
cp -r kept ck/keys

# What the owner of the storage exchanges is refused by name. `marked` has one checkpoint, `heat` has several.
check "another store with the same key" "$MAKE_STORE" other wanted
cp -r ck safe
exchange() { # FROM TO WHY
	cp "$1" "$2"
	run 20 verify ck
	check "verify names ${2#ck/}" grep -q "${2#ck/}.*$3" out err
	rm -rf ck
	cp -r safe ck
}
record() { # STORE NAME: the record of its newest checkpoint
	find "$1/n/$2/record" -type f | sort | head -n "${3:-1}" | tail -n 1
}
pack() {
	find "$1/n/$2/data" -type f -name 00000000 | sort | tail -n 1
}
# Copies of the keys of two stores open with the same user's key; the other copy still opens the store.
for copy in 0 1; do
	cp other/keys/$copy ck/keys/$copy
	run 0 restore ck heat@200 steps -o got --force
	same got wanted/200.steps
	run 20 key ck
	has err "keys/$copy.*of another store"
	exchange other/keys/$copy ck/keys/$copy 'of another store'
	cp other/keys/$copy ck/keys/$copy
	VARVE_FAULT=storage.keys.between_change=kill "$VARVE" key ck change "file:$WORK/two.key" >out 2>&1
	check "half changed, with keys/$copy of another store: the old key opens" opens one
	check "half changed, with keys/$copy of another store: the new key opens" opens two
	run 0 key ck change "file:$WORK/one.key"
	run 0 key ck
	run 0 verify ck
	rm -rf ck
	cp -r safe ck
done
exchange "$(record ck heat 2)" "$(record ck heat)" 'under another name'
exchange "$(record ck marked)" "$(record ck heat)" 'under another name'
exchange "$(pack ck marked)" "$(pack ck heat)" 'under another name'
exchange "$(record other heat)" "$(record ck marked)" 'of another store'
exchange "$(pack other heat)" "$(pack ck marked)" 'of another store'
exchange "$(record plain/ck marked)" "$(record ck marked)" 'not encrypted'
exchange "$(pack plain/ck marked)" "$(pack ck marked)" 'not encrypted'
cp other/varve ck/varve
run 20 verify ck
check "the store object of another store is not taken" grep -q 'varve.* is damaged' out err

if "$PYTHON" -c 'import cryptography' 2>/dev/null; then
	rm -rf ck
	cp -r safe ck
	check "the independent reader" "$PYTHON" "$READER" verify ck --key "file:$WORK/one.key"
	check "the independent reader restores" "$PYTHON" "$READER" restore ck heat 200 0 temperature -o got --key "file:$WORK/one.key"
	same got wanted/200.temperature
	"$PYTHON" "$READER" ls ck --key "file:$WORK/two.key" >out 2>err && fail "the reader with a wrong key" || pass "the reader refuses a wrong key"
	has err 'another key'
	cp other/keys/0 ck/keys/0
	check "the reader, and keys/0 of another store" "$PYTHON" "$READER" verify ck --key "file:$WORK/one.key"
	ln -sf nowhere ck/keys/0
	check "the reader, and a link at keys/0" "$PYTHON" "$READER" verify ck --key "file:$WORK/one.key"
	rm ck/keys/0
	cp safe/keys/0 ck/keys/0
	cp "$(record ck marked)" "$(record ck heat)"
	"$PYTHON" "$READER" verify ck --key "file:$WORK/one.key" >out 2>&1 && fail "the reader and a moved record" || pass "the reader refuses a moved record"
fi
finish
