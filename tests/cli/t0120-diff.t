# diff: between versions, names and stores; bit for bit, by value, quickly; what is read; exit codes.
. "${SOURCE:?}/lib.sh"
make_store
make_store --arrays

# Versions of a name. Every exit code but 0 and 1 is trouble.
run 1 diff ck heat@100 heat@200
check "changed" grep -q '^ *0  temperature  changed  1.0 MiB  1.0 MiB  *2 B  bytes  *2  20497  0x[0-9a-f]* -> 0x[0-9a-f]*$' out
has_not out '^ *0  steps'
has out '^1 of 3 regions differ, in 2 B$'
has out '^8.0 KiB of 1.3 MiB were compared, the rest is known to be the same; .* read$'
run 0 diff ck heat@300 heat@300
has out '^no difference in 4 regions$'
has out '^0 B of 1.3 MiB were compared'
run 2 diff ck heat@300 heat@301
has err 'no checkpoint of "heat" with version 301'
run 2 diff ck heat@300
run 2 diff ck heat@300 heat@200 --bogus
run 2 --json diff ck heat@300 heat@200 --keep-last 3
json 'of("error")[0]["exit_code"] == 2'
run 2 diff ck heat@300 heat@200 --tolerance -1
has err 'tolerance needs a number'
run 2 diff ck heat@300 heat@200 --relative nan
run 2 diff ck heat@300 heat@200 --tolerance 1 --quick
run 10 diff nowhere heat@300 heat@200
run 10 diff ck heat@300 nowhere heat@200
run 1 ls ck --bogus
"$VARVE" diff ck heat@100 heat@200 >/dev/full 2>err
check "an output that cannot be written is trouble" test $? -eq 2

run 1 diff ck heat@200 heat@300 --json
json '{d["region"]: d["what"] for d in of("difference")} == {"temperature": "same", "steps": "changed", "zeros": "same", "note": "added"}' \
	'[(d["bytes_changed"], d["elements"], d["elements_changed"], d["elements_differing"], d["first_offset"]) for d in of("difference") if d["region"] == "steps"] == [(1, 40000, 1, 1, 4096)]' \
	'[d["largest"] for d in of("difference") if d["region"] == "steps"] == [None]' \
	'of("summary")[0]["differing"] == 2 and of("summary")[0]["bytes_changed"] == 1 + 24' \
	'of("summary")[0]["bytes_digest"] == 1048576 + 262144' \
	'of("summary")[0]["bytes_place"] + of("summary")[0]["bytes_compared"] == 40000 and of("summary")[0]["bytes_compared"] == 4096' \
	'0 < of("summary")[0]["bytes_read"] < 300000'
run 1 diff ck heat@300 heat@200 --json
json '{d["region"]: d["what"] for d in of("difference")}["note"] == "removed"' \
	'["type" in d for d in of("difference") if d["region"] == "note"] == [False]'

# Quickly: whole pieces of 4 KiB, and no data is read.
run 1 diff ck heat@100 heat@200 --quick
check "at most" grep -q '^ *0  temperature  changed  *1.0 MiB  1.0 MiB  8.0 KiB$' out
has out '^1 of 3 regions differ, in at most 8.0 KiB$'
run 1 diff ck heat@100 heat@300 -q --json
json '{d["region"]: d["bytes_changed"] for d in of("difference")} == {"temperature": 8192, "steps": 4096, "zeros": 0, "note": 24}' \
	'of("summary")[0]["bytes_compared"] == 0'

# Values. Integers are exact whatever the tolerance.
run 1 diff ck field@1 field@2
check "plate" grep -q '^ *0  plate  *changed .* 8 B  f64  *1  130567  3.5 -> 1  *2.5  *0.714286$' out
check "step" grep -q '^ *0  step  *changed .* 4 B  i32  *1  *0  400 -> 401  *1  0.00249377$' out
run 1 diff ck field@1 field@2 --tolerance 2.5
check "plate is within" grep -q '^ *0  plate  *within .* f64  *0  130567  3.5 -> 1  *2.5  *0.714286$' out
has out '^1 of 13 regions differ, in 12 B; 1 changed within the tolerance$'
run 1 diff ck field@1 field@2 --tolerance 2.4 --json
json '{d["region"]: d["elements_differing"] for d in of("difference") if d["what"] != "same"} == {"plate": 1, "step": 1}'
run 1 diff ck field@1 field@2 --relative 0.72 --json
json '[(d["what"], d["elements_changed"], d["elements_differing"], d["value_first"], d["value_second"], d["largest"], d["largest_element"]) for d in of("difference") if d["region"] == "plate"] == [("within", 1, 0, "3.5", "1", 2.5, 130567)]' \
	'of("summary")[0]["within"] == 1 and of("summary")[0]["differing"] == 1'

# Two names of a store, and two stores: nothing is shared between these but what the bytes are.
run 1 diff ck heat@100 'wave "1"'
has out '^4 of 4 regions differ'
mkdir again
check "a second store" "$MAKE_STORE" --arrays "$WORK/other" "$WORK/again"
run 0 diff ck field@1 other field@1
has out '^no difference in 13 regions$'
run 0 diff ck field@2 other field --json
json 'of("summary")[0]["bytes_digest"] == 0 and of("summary")[0]["bytes_id"] == 0 and of("summary")[0]["bytes_place"] == 0' \
	'of("summary")[0]["bytes_compared"] > 1000000 and of("summary")[0]["bytes_zero"] == 262144'
run 1 diff ck field@1 other field@2 --tolerance 2.5
has out '^1 of 13 regions differ, in 12 B; 1 changed within the tolerance$'
run 2 diff ck field@1 other field@2 --quick
has err 'have to be read'
cp -r ck copy
run 0 diff ck field@1 copy field@1 --json
json 'of("summary")[0]["bytes_compared"] == 0'
VARVE_STORE="$WORK/ck"
export VARVE_STORE
run 1 diff field@1 field@2
run 0 diff field@1 other field@1
unset VARVE_STORE

# How far it is, and stopping it.
"$VARVE" diff 'ck?latency=60ms' heat@100 'other?latency=60ms' field@1 --json >out 2>err
check "different" test $? -eq 1
"$VARVE" diff 'ck?latency=60ms' field@1 'other?latency=60ms' field@1 --json >out 2>err
check "the same, slowly" test $? -eq 0
json 'len(of("status")) >= 1 and all(0 <= s["percent_done"] <= 1 for s in of("status"))'

# What cannot be read is told, unless nobody needs it.
pack=$(ls -d ck/n/heat/data/*/00000000000000c8/00000000/00000000)
printf 'damage' | dd of="$pack" bs=1 seek=300 conv=notrunc 2>dd.err
run 20 diff ck heat@100 heat@200
has err 'damaged'
run 0 diff ck heat@200 heat@200
finish
