# config, what it says about this machine, and the manual page made from it.
. "${SOURCE:?}/lib.sh"

run 0 config
check "keep" grep -q '^keep  *3  *default$' out
run 0 config --list
check "keep with bounds" grep -q '^    allowed all, 0 to 1000000, default 3$' out
has_not out '^guard'
check "the tiers are in order" test "$(grep -o '^[A-Z]*: ' out | tr -d '\n')" = "EVERYDAY: ADVANCED: MEASURING: "
check "a word is the default" grep -q '^    allowed auto, off, 0 to 4096, default auto$' out
cp out list
run 0 config --json
json 'len({s["name"] for s in of("setting")}) == len(of("setting")) > 10' \
	'all(s["help"] and s["type"] and s["bounds"] for s in of("setting"))' \
	'len(lines) == len(of("setting")) + len(of("choice"))' \
	'set(s["tier"] for s in of("setting")) == {"everyday", "advanced", "measuring"}' \
	'(lambda t: t == sorted(t, key=["everyday", "advanced", "measuring"].index))([s["tier"] for s in of("setting")])' \
	'of("setting")[0]["name"] == "keep"'
VARVE_KEEP=all "$VARVE" config >out 2>err
check "from the environment" grep -q '^keep  *all  *environment$' out
VARVE_AGGREGATE=1 VARVE_FINE=auto "$VARVE" config >out 2>err
check "a number is shown as its word" grep -q '^aggregate  *off  *environment$' out
check "a word is taken" grep -q '^fine  *auto  *environment$' out
echo 'codec = zstd # small' >varve.conf
run 0 config
check "from a file" grep -q '^codec  *zstd  *varve.conf:1$' out
echo 'codec = gzip' >varve.conf
run 1 config
has err 'varve.conf:1: codec cannot be "gzip"'
echo 'match = rank[0-9]{1,4' >varve.conf
run 1 config
has err 'varve.conf:1: match cannot be "rank\[0-9\]{1,4": '
rm varve.conf
check "no pattern can be seen" grep -q '^    allowed pattern, default ""$' list
run 1 config now

# Which tracker and guard there are depends on the kernel and on who asks; that they are told, and why, does not.
run 0 config
for what in capture tracker guard frozen; do
	has out "^$what  *[a-z-][a-z-]*  *[a-z].* [a-z]"
done
has out '^capture  *auto  *the setting capture (default)$'
run 0 config --json
json '[c["what"] for c in of("choice")] == ["capture", "tracker", "guard", "frozen"]' \
	'all(c["choice"] and c["reason"] for c in of("choice"))' \
	'of("choice")[1]["choice"] in ("scan", "softdirty", "trap-uffd", "trap-mprotect", "none")' \
	'of("choice")[2]["choice"] in ("uffd", "mprotect", "none")'

# Everything inside the call: nothing is held then.
for setting in CAPTURE=sync THREADS=0 ON_ERROR=retry:2; do
	export "VARVE_$setting"
	run 0 config --json
	json '[c["choice"] for c in of("choice")][::2] == ["sync", "none"]'
	unset "VARVE_${setting%%=*}"
done
export VARVE_TRACKER=none
run 0 config --json
json 'of("choice")[1]["choice"] == "none"'

# What is asked for is what is told; or it does not work here, and that is an error with a reason.
for tracker in scan softdirty trap-uffd trap-mprotect; do
	export VARVE_TRACKER=$tracker
	"$VARVE" config --json >out 2>err
	case $? in
	0) json "of('choice')[1]['choice'] == '$tracker'" ;;
	1) json 'lines[-1]["message_type"] == "error"' 'len(lines[-1]["message"]) > 20' 'len(of("setting")) > 10' ;;
	*) fail "config with tracker=$tracker" ;;
	esac
done
unset VARVE_TRACKER

# Somebody without privileges cannot stop system calls: there only what is declared free of them is held.
nobody() {
	(cd / && setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps=-all "$@")
}
if [ "$(id -u)" -eq 0 ] && nobody "$VARVE" --version >out 2>err && ! nobody test -r /dev/userfaultfd &&
	[ "$(cat /proc/sys/vm/unprivileged_userfaultfd 2>/dev/null)" = 0 ]; then
	nobody "$VARVE" config >out 2>err
	has out '^guard  *mprotect  *.*VARVE_NO_KERNEL_WRITES'
else
	pass "nobody: we are not root, or everybody may use userfaultfd # skip"
fi

"$VARVE" config --man >man.part
sed -n '/^; begin of what/,/^; end of what/p' "$SOURCE/../../docs/man/varve.5.scd" | sed '1d;$d' >man.doc
check "varve.5.scd is up to date (put in what \`varve config --man\` prints)" cmp man.part man.doc
finish
