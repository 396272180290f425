#!/bin/sh
# The tool and the independent reader on the store of one of two nodes: ranks 0 and 1 ran on node 0, ranks 2 and 3 on node 1. What is on the other
# node is no damage; what is missing here is. Environment: VARVE, MAKE_NODES, READER, PYTHON, SOURCE (tests/cli).
. "${SOURCE:?}/lib.sh"

"$MAKE_NODES" "$WORK/made" >make.out 2>&1 || {
	sed 's/^/# /' make.out
	echo "Bail out! no stores could be made"
	exit 1
}
cp -a made/node0 made/node1 .

read_it() { # CODE ARGUMENTS...: the independent reader
	code=$1
	shift
	"$PYTHON" "$READER" "$@" >out 2>err </dev/null
	got=$?
	if [ $got -eq "$code" ]; then pass "varve-read $* exits with $code"; else fail "varve-read $* exits with $code, not $got"; fi
}

renew() { # NODE: as it was made
	rm -rf "$1" && cp -a "made/$1" "$1"
}

flip() { # FILE OFFSET
	"$PYTHON" -c 'import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    byte = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([byte[0] ^ 1]))' "$1" "$2"
}

data=n/job/data
first=$data/00000001
record3=n/job/record/fffffffefffffffffffffffc
list3=$first/0000000000000003/00000000/writers

# Each node on its own is well.
for node in node0 node1; do
	run 0 ls $node
	has out 'job  *4 '
	run 0 verify $node
	has out '^4 checkpoints, .* no damage found$'
	has out '^note: job: 8 packs of its checkpoints are not on this node: they are kept on other nodes, or missing; this cannot be told from here$'
	run 0 verify $node --quick
	run 0 verify $node --json
	json 'lines[-1]["damaged_objects"] == 0 and [f["level"] for f in of("finding")] == ["note"]'
	run 0 prune $node
	has out '^0 objects removed'
	run 0 repair $node
	has out '^nothing to rebuild'
	check "neither has changed anything" diff -r $node made/$node
	run 0 stats $node
	has err 'store of one node'
	read_it 0 verify $node
	has out '^4 of 4 checkpoints can be restored; 0 problems$'
	has out '; 8 packs are not on this node: kept on other nodes, or missing; this cannot be told from here$'
done

# Ranks that are here, and ranks that are not.
run 0 show node1 job
has out '^ *2 .*field'
has_not out '^ *0 .*field'
has err 'left out ranks 0 to 1, not on this node: kept on other nodes, or missing'
run 0 show node0 job@2
has err 'left out ranks 2 to 3'
run 1 diff node1 job@1 job@3
has out 'field'
has err 'left out ranks 0 to 1'
has_not err 'ranks 0 to [23]'
run 3 diff node1 job@3 job@3 # of what is here, nothing
has out '^no difference in'
for version in 1 2 3 4; do
	for rank in 0 1 2 3; do
		here=node$((rank / 2))
		there=node$((1 - rank / 2))
		run 0 restore $here job@$version field --rank $rank -o got --force
		same got made/expect/$version.$rank.field
		run 1 restore $there job@$version field --rank $rank -o got.not
		has err "rank $rank of job@$version is not on this node: it is kept on another one, where the rank ran, or missing"
		check "nothing was written" test ! -e got.not
	done
done
read_it 0 restore node1 job latest 3 field -o got
same got made/expect/4.3.field
read_it 0 restore node0 job 2 1 step -o got
same got made/expect/2.1.step
read_it 1 restore node1 job 2 1 step -o got
has err 'not on this node: kept on another one, or missing; this cannot be told from here'
read_it 0 show node0 job
has out '^rank 1  region 0  field'
has_not out '^rank 2'
has err '^varve-read: rank 2: .*not on this node'

# A writer stays on its node for a whole generation: what others of its packs prove to belong here, is missing.
rm node1/$first/0000000000000002/00000000/00000003
run 20 verify node1
has out "^damage: $first/0000000000000002/00000000/00000003: .* is missing, but checkpoints need it"
run 20 restore node1 job@2 field --rank 3 -o got.not
has err 'is missing'
read_it 20 verify node1
has err "$first/0000000000000002/00000000/00000003: object is missing"
renew node1

# Damage is damage.
flip node1/$first/0000000000000003/00000000/00000002 200
run 20 verify node1
has out "^damage: $first/0000000000000003/00000000/00000002"
run 0 verify node0
read_it 20 verify node1
renew node1

# A record that is lost or damaged here is not made from the votes of one node; another node has it.
flip node1/$record3 130
run 20 verify node1
has out "^damage: $record3: .*; the job's next restart copies it from another node"
run 0 repair node1
has out "^$record3: .*not rebuilt from this node's packs alone: the job's next restart copies it from another node"
check "no generation was claimed for that" diff -r node1/n/job/claim made/node1/n/job/claim
run 20 prune node1
renew node1
rm node1/$record3
run 20 verify node1
has out "^lost: $record3: generation 1 version 3 was committed, but has no record on this node; the job's next restart copies it"
run 0 repair node1
check "it is still missing" test ! -e node1/$record3
run 0 prune node1
check "its packs are still there" test -e node1/$first/0000000000000003/00000000/00000002
check "and its list" test -e node1/$list3
renew node1
flip node1/$list3 130
run 20 verify node1
has out "^damage: $list3: .*; the job's next restart copies it from another node"
run 0 repair node1
has out "^$list3: damaged, and cannot be rebuilt: its packs are on several nodes"
renew node1

# The newest attempt has no record here, as if the job had died between two nodes: nobody on this node knows more.
rm node1/n/job/record/fffffffdfffffffffffffffb
for beat in node1/n/job/beat/*; do rm "$beat"; done
run 0 verify node1
has out '^note: .*generation 2 version 4 is not committed on this node; the job.s next session completes it'
run 0 prune node1
has err 'version 4 of job (generation 2) has no record on this node, but other nodes may have the rest of it: kept'
check "its packs are still there" test -e node1/$data/00000002/0000000000000004/00000000/00000003
run 0 repair node1
check "and no record was made" test ! -e node1/n/job/record/fffffffdfffffffffffffffb
renew node1

# Forgetting and pruning what is here.
run 0 forget node0 job@3
run 0 prune node0
run 0 verify node0
run 0 restore node0 job@4 field --rank 1 -o got --force
same got made/expect/4.1.field

# Parity instead of copies: it is checked where it lies, and goes with its attempt.
"$MAKE_NODES" "$WORK/coded" parity=1+1 >make.out 2>&1 || fail "stores with parity are made"
coded=coded/node0/$first/0000000000000002/00000000
check "parity is there" test -e $coded/00000000.parity -a -e $coded/00000001.parity
check "and no copies" test ! -e $coded/00000002.copy
run 0 verify coded/node0
has out '^4 checkpoints, .* no damage found$'
read_it 0 verify coded/node0
for offset in 20 5000 -10; do # in the head, in the parity, in the end
	cp $coded/00000001.parity kept.parity
	size=$(wc -c <kept.parity)
	flip $coded/00000001.parity $((offset < 0 ? size + offset : offset))
	run 20 verify coded/node0
	has out "^damage: $first/0000000000000002/00000000/00000001.parity: "
	read_it 20 verify coded/node0
	has err "$first/0000000000000002/00000000/00000001.parity"
	cp kept.parity $coded/00000001.parity
done
run 0 verify coded/node0
cp -a coded/node0 pruned
for version in 1 2 3; do run 0 forget pruned job@$version; done
run 0 prune pruned
check "parity goes with its attempt" test ! -e pruned/$first/0000000000000001/00000000/00000000.parity
run 0 verify pruned
finish
