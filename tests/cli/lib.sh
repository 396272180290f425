# What the tests of the `varve` command share; TAP on stdout. A test sources this, calls `check NAME COMMAND...` and the
# others below, and ends with `finish`. VARVE, MAKE_STORE, PYTHON and SOURCE come from ctest.

set -u
unset VARVE_STORE VARVE_CONFIG XDG_CONFIG_HOME
HOME=/nonexistent
TZ=UTC0
LC_ALL=C
export HOME TZ LC_ALL
WORK=$(mktemp -d "${TMPDIR:-/tmp}/varve-cli.XXXXXX") || exit 1
trap 'rm -rf "$WORK"' EXIT
cd "$WORK" || exit 1
COUNT=0

pass() {
	COUNT=$((COUNT + 1))
	printf 'ok %d - %s\n' $COUNT "$1"
}

fail() {
	COUNT=$((COUNT + 1))
	: >"$WORK/.failed" # a file, since what follows a pipe is another shell
	printf 'not ok %d - %s\n' $COUNT "$1"
	for file in out err expected; do
		test -s $file && sed "s/^/# $file: /" $file
	done
	return 0
}

# Every command that `varve help` lists.
commands() {
	"$VARVE" help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'
}

# check NAME COMMAND...: the command succeeds.
check() {
	name=$1
	shift
	if "$@" >check.out 2>&1; then pass "$name"; else fail "$name"; sed 's/^/# /' check.out; fi
}

# run CODE ARGUMENTS...: run varve, leaving its output in out and err, and check its exit code.
run() {
	code=$1
	shift
	"$VARVE" "$@" >out 2>err </dev/null
	got=$?
	if [ $got -eq "$code" ]; then pass "varve $* exits with $code"; else fail "varve $* exits with $code, not $got"; fi
}

# has FILE PATTERN, has_not FILE PATTERN: a line matches, or none does.
has() {
	check "$1 has: $2" grep -q -e "$2" "$1"
}

has_not() {
	if grep -q -e "$2" "$1"; then fail "$1 has not: $2"; else pass "$1 has not: $2"; fi
}

same() {
	check "$1 and $2 are the same" cmp "$1" "$2"
}

# is FILE: the file has exactly the text on stdin.
is() {
	cat >expected
	if cmp -s expected "$1"; then pass "$1 is as expected"; else fail "$1 is as expected"; fi
}

# json EXPRESSION...: out is JSON lines, each with message_type, and the Python expressions over the list `lines` hold.
json() {
	check "json: $*" "$PYTHON" "$SOURCE/json-check.py" out "$@"
}

# make_store [--arrays]: make the store ck
make_store() {
	"$MAKE_STORE" "$@" "$WORK/ck" "$WORK" >make.out 2>&1 || {
		sed 's/^/# /' make.out
		echo "Bail out! no store could be made"
		exit 1
	}
}

finish() {
	echo "1..$COUNT"
	[ ! -e "$WORK/.failed" ]
	exit
}
