# `varve forget STORE --keep 3` was taken for --keep-last 3 and deleted at once: getopt_long accepts the beginning of any
# long option. The beginning of an option must be refused by every command, before anything is done.
set -u
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT
cd "$WORK" || exit 1
export HOME="$WORK" VARVE_KEEP=0
mkdir data
for version in 1 2 3 4; do
	echo "step $version" >data/file
	"$VARVE" import ck "run@$version" -C data file 2>/dev/null || exit 1
done
FAILED=0

# refused WORD...: the command ends with an error that names the word, and all four checkpoints are there.
refused() {
	word=$1
	shift
	if "$VARVE" "$@" >out 2>err </dev/null; then
		echo "accepted: varve $*"
		FAILED=1
	elif ! grep -q -e "there is no option $word" err; then
		echo "another error for: varve $*"
		cat err
		FAILED=1
	fi
	count=$("$VARVE" ls ck --json | grep -c '"message_type":"checkpoint"')
	if [ "$count" -ne 4 ]; then
		echo "$count checkpoints of 4 are left after: varve $*"
		exit 1
	fi
}

refused --keep forget ck run --keep 2
refused --keep forget ck run --keep=2
refused --keep-las forget ck --keep-las 2
refused --dry forget ck run@1 --dry
refused --dry prune ck --dry
refused --dry repair ck --dry
refused --forc restore ck run file -o x --forc
refused --out restore ck run file --out x
refused --js ls ck --js
refused --sto --sto ck ls
refused --gen forget ck run@1 --gen 1
refused --vers --vers
refused --he help --he
refused --qui verify ck --qui
refused --lon show ck run --lon
refused --tol diff ck run@1 run@2 --tol 1
refused --dir export ck run --dir x
refused --lis config --lis
"$VARVE" forget ck run --keep-last=2 >out 2>err || { echo "--keep-last=2 was refused"; cat err; FAILED=1; }
"$VARVE" export ck run -C --rank file 2>err # a value may look like an option
grep -q 'no option' err && { echo "the value --rank was taken for an option"; cat err; FAILED=1; }
python3 "$SOURCE/tools/varve-read.py" ls ck --al >out 2>err
grep -q 'unrecognized arguments' err || { echo "varve-read took a beginning"; cat err; FAILED=1; }
exit $FAILED
