# `varve forget STORE --keep-last 1` forgot checkpoints of every name in the store, also of names that belong to other
# people's runs. All names must go only when asked for (--all-names), and a dry run must say what it would do.
set -u
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT
cd "$WORK" || exit 1
export HOME="$WORK" VARVE_KEEP=0
mkdir data
for name in mine theirs; do
	for version in 1 2 3; do
		echo "$name $version" >data/file
		"$VARVE" import ck "$name@$version" -C data file 2>/dev/null || exit 1
	done
done

fail() {
	echo "$1"
	cat out err
	exit 1
}

# left NUMBER: so many checkpoints are there.
left() {
	count=$("$VARVE" ls ck --json | grep -c '"message_type":"checkpoint"')
	[ "$count" -eq "$1" ] || fail "$count checkpoints are left, not $1"
}

"$VARVE" forget ck --keep-last 1 >out 2>err && fail "all names were taken without being asked for"
grep -q -e '--all-names' err || fail "the message does not say how to ask for all names"
left 6
"$VARVE" forget ck mine --all-names --keep-last 1 >out 2>err && fail "a name and all names at once"
"$VARVE" forget ck --all-names >out 2>err && fail "all names without --keep-last"
left 6
"$VARVE" forget ck --all-names --keep-last 1 --dry-run >out 2>err || fail "the dry run failed"
[ "$(grep -c '^would forget' out)" -eq 4 ] || fail "the dry run names not all four"
grep -q 'nothing was changed' err || fail "the dry run does not say that nothing was changed"
left 6
"$VARVE" forget ck mine --keep-last 1 >out 2>err || fail "one name failed"
[ "$(grep -c '^forget mine@' out)" -eq 2 ] || fail "not every one was named"
left 4
"$VARVE" forget ck --all-names --keep-last 1 >out 2>err || fail "all names failed"
[ "$(grep -c '^forget theirs@' out)" -eq 2 ] || fail "not every one was named"
left 2
