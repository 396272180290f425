# After a kill on another host or in another PID namespace a new start waited 60 s, and there was no way to say "I know that it
# is dead". `varve unlock` must show who holds a name, refuse while it is alive, and free what is dead; whoever was wrong about
# that loses nothing.
set -u
WORK=$(mktemp -d) || exit 1
HOLD="$BUILD/tests/cli/make-store"
holder=
trap 'exec 3>&-; [ -n "$holder" ] && kill -9 "$holder" 2>/dev/null; rm -rf "$WORK"' EXIT
cd "$WORK" || exit 1
export HOME="$WORK" VARVE_BEAT_SECONDS=1 VARVE_DEAD_SECONDS=30 VARVE_TAKEOVER_SECONDS=1 VARVE_LOG=error
mkfifo words

fail() {
	echo "$1"
	cat out err said 2>/dev/null
	exit 1
}

# hold COMMAND...: a program that holds the name "run" until it is killed; what it says goes to said.
hold() {
	: >said
	"$@" "$HOLD" --hold "$WORK/ck" run <words >said 2>&1 &
	holder=$!
	exec 3>words
	hear ready
}

# hear WORD: wait until the holder has said it.
hear() {
	tries=0
	until grep -q "$1" said; do
		tries=$((tries + 1))
		[ $tries -lt 200 ] || fail "the holder did not say: $1"
		sleep 0.1
	done
}

# gone: kill the holder, and everything in its PID namespace.
gone() {
	kill -9 "$1"
	wait "$holder" 2>/dev/null
	holder=
	exec 3>&-
}

# unlock CODE ARGUMENTS...
unlock() {
	code=$1
	shift
	"$VARVE" unlock ck run "$@" >out 2>err </dev/null
	got=$?
	[ $got -eq "$code" ] || fail "varve unlock $* ended with $got, not $code"
}

# On this machine: alive is refused, whatever is said; dead is seen at once.
hold env
unlock 11
grep -q "^process  *$holder (make-store) on host" out || fail "it does not say which process"
grep -q 'its process runs on this machine' out || fail "it does not say why it is alive"
unlock 11 --dead --json
grep -q '"state":"alive"' out || fail "no state in JSON"
"$HOLD" --hold ck run </dev/null >out 2>err && fail "two programs hold one name"
grep -q 'varve unlock STORE run' err || fail "varve_open does not point to varve unlock"
gone "$holder"
unlock 0 -n
grep -q 'nothing was changed' err || fail "the dry run does not say so"
grep -q 'there is no such process any more' out || fail "no evidence"
unlock 0
unlock 0
grep -q 'held by  *nobody' out || fail "it is not free"

unshare --pid --fork true 2>/dev/null ||
	{ echo "skipped: holders on this machine are right, alive and dead; the rest needs PID namespaces"; exit 77; }

# Elsewhere: only the heartbeat tells. It changes: alive, whatever is said.
hold unshare --pid --fork --kill-child --mount-proc # as in a container
inside=$(pgrep -P "$holder")
unlock 11 --dead
grep -q 'heartbeat was renewed' err || fail "it was not told that the heartbeat was renewed"
# It stands still, and somebody says that it is dead. Wrong: it is fenced, and what it had saved stays.
kill -STOP "$inside"
unlock 0 --dead
grep -q 'you say that it is dead' err || fail "it does not say what it goes by"
"$VARVE" restore ck run@900 steps -o steps 2>err || fail "version 900 was lost"
kill -CONT "$inside"
echo save >&3
hear FENCED
"$VARVE" verify ck >out 2>err || fail "the store is damaged"
"$VARVE" ls ck run --json | grep -q '"version":901' && fail "the fenced program could save"
gone "$inside"

# The whole namespace is dead: seen at once by root outside, where the heartbeat would take 30 s.
if [ "$(id -u)" -eq 0 ] && [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ]; then
	hold unshare --pid --fork --kill-child --mount-proc
	gone "$(pgrep -P "$holder")"
	begin=$(date +%s)
	unlock 0
	[ $(($(date +%s) - begin)) -lt 10 ] || fail "a dead namespace was not seen"
else
	echo "not tried: only root in the first PID namespace sees that another one is dead"
fi
exit 0
