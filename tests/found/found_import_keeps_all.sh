# A default for keep must not thin out an archive: `varve import` of one version after the other keeps all of them, also where a
# varve.conf that was written for programs says otherwise. VARVE_KEEP in its environment is obeyed, and that is said.
set -u
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT
cd "$WORK" || exit 1
export HOME="$WORK"
unset VARVE_KEEP VARVE_CONFIG
mkdir data

fail() {
	echo "$1"
	cat err
	exit 1
}

# import VERSION
import() {
	echo "step $1" >data/file
	"$VARVE" import ck "run@$1" -C data file 2>err || fail "import of version $1"
}

# left NUMBER: so many checkpoints are there.
left() {
	count=$("$VARVE" ls ck --json | grep -c '"message_type":"checkpoint"')
	[ "$count" -eq "$1" ] || fail "$count checkpoints are left, not $1"
}

for version in 1 2 3 4 5; do
	import $version
done
left 5
echo 'keep = 2' >varve.conf
chmod 600 varve.conf
import 6
left 6
grep -q forgotten err && fail "it says that something was forgotten"
VARVE_KEEP=2 import 7
grep -q 'all but the newest 2 versions of run are forgotten' err || fail "it does not say what is forgotten"
left 2
