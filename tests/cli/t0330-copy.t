# copy: from one store to another, by its name and by another one.
. "${SOURCE:?}/lib.sh"
make_store

run 0 copy ck heat@200 to --dry-run
has out '^heat@200: .* of .* are not there, before compression$'
check "nothing is made" test ! -e to
run 0 copy ck heat@200 to
has out '^heat@200 copied: .* of .* were new; .* written$'
run 0 copy ck heat@200 to
has out '^heat@200 was there already: both were read and are the same'
run 0 diff ck heat@200 to heat@200
run 0 copy ck heat to --json
json 'of("summary")[0]["bytes_new"] < of("summary")[0]["bytes_protected"]' 'of("summary")[0]["was_there"] is False' \
	'of("summary")[0]["name"] == "heat"' 'of("summary")[0]["generation"] > 0'
run 0 copy ck heat to --json
json 'of("summary")[0]["was_there"] is True' 'of("summary")[0]["bytes_written"] == 0'
run 1 copy ck heat@100 to
has err 'heat has a later version .* there .*: copy it under another name'
run 0 copy ck heat@100 to 'wave "1"'
run 0 verify to
run 0 ls to
check "three checkpoints" test "$(wc -l <out)" -eq 4

run 1 copy ck nobody to
has err 'nobody'
run 1 copy ck heat
has err 'usage: varve copy'
run 10 copy ck heat /nowhere/at/all
has err 'parent folder does not exist'
finish
