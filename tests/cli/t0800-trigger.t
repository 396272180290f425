# trigger, interval: what can be said without a running program.
. "${SOURCE:?}/lib.sh"
make_store

run 1 trigger ck
run 1 trigger ck heat
has err 'no session has it open'
run 1 trigger ck nothing
has err 'no session has it open'
check "no name is made by asking" test ! -e ck/n/nothing
run 1 trigger ck heat --mtbf 3
has err 'takes no --mtbf'

run 0 interval --cost 30 --mtbf 86400
has out 'interval_seconds=2257'
has out '2.6 % of its time'
run 0 interval --cost 30 --mtbf 86400 --json
json 'abs(lines[0]["interval_seconds"] - 2256.8) < 1 and abs(lines[0]["young_seconds"] - 2276.8) < 1'
run 0 interval --cost 0 --mtbf 1
run 1 interval --cost 30
has err 'Give --mtbf'
run 1 interval --mtbf 100
has err 'give either STORE NAME or --cost'
run 1 interval ck heat --mtbf 100 --cost 3
run 1 interval --mtbf 0 --cost 3
run 1 interval --mtbf nan --cost 3
run 1 interval ck heat --mtbf 100
has err 'interval=auto'
run 1 interval ck nothing --mtbf 100
finish
