# Every error that a command tells: what happened, which object, and what to do, in less than 200 characters.
. "${SOURCE:?}/lib.sh"

# tells CODE WHAT WHICH TODO ARGUMENTS...: the first line on stderr has these three, and is short; what to do may also be
# in the usage that follows it.
tells() {
	code=$1 what=$2 which=$3 todo=$4
	shift 4
	run "$code" "$@"
	head -n 1 err >line
	check "varve $*: what: $what" grep -q -e "^varve: .*$what" line
	check "varve $*: which: $which" grep -q -e "$which" line
	check "varve $*: what to do: $todo" grep -q -e "$todo" err
	check "varve $*: less than 200 characters" test "$(wc -m <line)" -lt 200
}

make_store
touch there

# The command line.
tells 1 'which command' command 'see `varve help`'
tells 1 'no command "frobnicate"' frobnicate 'see `varve help`' frobnicate
tells 1 'which store' store 'Give its address, or set VARVE_STORE' ls
tells 1 'one argument too many' '"z"' 'usage: varve ls' ls ck heat z
tells 1 'argument is missing' argument 'usage: varve show' show ck
tells 1 'no option --frob' frob 'see `varve help`' ls ck --frob
tells 1 'takes no --force' 'ls' 'usage: varve ls' ls ck --force
tells 1 'needs a value' 'option -o' 'see `varve help`' restore ck heat steps -o
tells 1 'needs a number' --rank 'see `varve help`' restore ck heat steps --rank -1
tells 1 'is no version' '"x"' 'give a number or "latest"' show ck heat@x
tells 1 'is no generation' '"0"' 'a number from 1 on' show ck heat@100:0
tells 1 'how often does the job fail' job 'Give --mtbf SECONDS' interval --cost 3

# The store.
tells 10 'there is no folder' nowhere 'check the path, and whether its file system is mounted' ls nowhere
mkdir other
tells 10 'there is no store' 'at other' 'it would have an object named varve' ls other
tells 1 'is not a folder' there 'is not a folder' ls there
tells 1 'no backend' 'gopher://' 'there are file, mem' ls gopher://x
tells 10 'parent folder does not exist' /nowhere/b/c 'is the file system mounted' copy ck heat@200 /nowhere/b/c
mkdir bad
head -c 300 /dev/zero >bad/varve
tells 20 'damaged' '(store bad)' 'the object varve' ls bad
tells 1 'not encrypted' '(store ck)' 'no key that could be changed' key ck change file:there
tells 1 'to change the key' key 'varve key STORE change NEW' key ck again

# Settings.
VARVE_KEEP=many
export VARVE_KEEP
tells 1 'cannot be "many"' 'environment: keep' 'allowed is all, 0 to' ls ck
unset VARVE_KEEP
VARVE_TIERS='a,,b'
export VARVE_TIERS
tells 1 'stray comma' 'tiers (from environment)' 'put a semicolon between addresses' ls ck
unset VARVE_TIERS
VARVE_KEY=00112233
export VARVE_KEY
tells 1 'cannot be' 'environment: key' 'file:PATH|env:NAME|command:TEXT' ls ck
has_not err 0011
unset VARVE_KEY
VARVE_ENCRYPT=on
export VARVE_ENCRYPT
tells 1 'encrypt=on needs a key' '(store ck)' 'file:PATH, env:NAME or command:TEXT' ls ck
unset VARVE_ENCRYPT
VARVE_CONFIG=$WORK/none.conf
export VARVE_CONFIG
tells 1 'cannot read settings' none.conf 'No such file' ls ck
unset VARVE_CONFIG
echo 'keep = 3' >open.conf
chmod 666 open.conf
VARVE_CONFIG=$WORK/open.conf
export VARVE_CONFIG
tells 1 'are not obeyed' open.conf 'chmod go-w' ls ck
unset VARVE_CONFIG

# Names, versions, ranks and regions.
tells 1 'ck has no checkpoint' '"nobody"' '`varve ls` alone lists all names' ls ck nobody
for command in show forget pin copy; do
	tells 1 'ck has no checkpoint' '"heat" with version 99' '`varve ls` tells what there is' $command ck heat@99 \
		$(test $command = copy && echo other)
done
tells 2 'ck has no checkpoint' '"heat" with version 99' '`varve ls` tells what there is' diff ck heat heat@99
for command in verify unlock compact top; do
	tells 1 'ck has nothing' 'of the name "nobody"' '`varve ls` tells which names' $command ck nobody
done
tells 1 'no region nothing' 'rank 0' '`varve show` lists' restore ck heat@200 nothing -o got
tells 1 'has no rank 7' 'heat@200' 'its ranks are 0 to 0' restore ck heat@200 steps --rank 7 -o got
tells 1 'is there already' '^varve: there' 'choose another file, or --force' restore ck heat@200 steps -o there
tells 1 'cannot make' /nowhere/out 'No such file or directory' restore ck heat@200 steps -o /nowhere/out
tells 1 'which version' heat 'Give heat@VERSION' forget ck heat
tells 1 'is not pinned' 'heat@200' 'nothing was changed' unpin ck heat@200
tells 1 'what to forget' forget 'Give NAME@VERSION, or NAME --keep-last N' forget ck

# Jobs, logs and files.
tells 1 'no session has it open' heat 'its last session has ended' trigger ck heat
tells 1 'no session has left a log' '"nobody"' 'not on a full storage (`varve stats`); `varve ls` lists all names' report ck nobody
tells 1 'is there already' '^varve: there' 'choose another file' report ck heat -o there
tells 1 'where to' where 'Give --to ADDRESS, or set tiers' flush ck heat
tells 1 'cannot look at' nofile 'No such file' import ck files nofile
tells 1 'holds checkpoints of a program' heat 'choose another name' import ck heat there
tells 1 'cannot start' /nowhere/program 'No such file' run /nowhere/program
finish
