# ls, show, stats.
. "${SOURCE:?}/lib.sh"
make_store

run 0 ls ck
sed 's/  *20[0-9][0-9]-[0-9-]* [0-9:]*  / TIME /; s/   *[0-9.]* [KM]*i*B$/ STORED/; s/  *STORED/ STORED/; s/  */ /g' out >shown
is shown <<'END'
NAME VERSION GENERATION TIME RANKS REGIONS PROTECTED STORED
heat 300 1 TIME 1 4 1.3 MiB STORED
heat 200 1 TIME 1 3 1.3 MiB STORED
heat 100 1 TIME 1 3 1.3 MiB STORED
wave "1" 1 1 TIME 1 1 100 B STORED
END
has_not err .
run 0 ls ck heat
check "four lines" test "$(wc -l <out)" -eq 4
run 1 ls ck nobody
has err 'no checkpoint of "nobody"'
run 0 ls ck --json
json 'lines[-1] == {"message_type": "summary", "checkpoints": 4, "damaged": 0, "unreadable": 0}' \
	'[c["version"] for c in of("checkpoint")] == [300, 200, 100, 1]' \
	'of("checkpoint")[0]["bytes_protected"] == 1048576 + 40000 + 262144 + 24' \
	'of("checkpoint")[3]["name"] == "wave \"1\""' \
	'of("checkpoint")[0]["time"].endswith("Z")'
run 1 ls ck nobody --json
json 'of("error")[0]["code"] == "NO_CHECKPOINT"'

run 0 show ck heat
has out '^version     300$'
has out '^parent      version 200 of generation 1$'
check "region table" grep -q '^ *0  zeros  *bytes  *256 KiB  *0 B  *256 KiB$' out
cp out latest
run 0 show ck heat@latest
same out latest
run 0 show ck heat@300 --generation 1
same out latest
run 0 show ck heat@300:1
same out latest
run 0 show ck heat@100
has out '^parent      none$'
run 0 show ck heat@200 --json
json '{r["region"]: r["bytes"] for r in of("region")} == {"temperature": 1048576, "steps": 40000, "zeros": 262144}' \
	'[r["bytes_zero"] for r in of("region") if r["region"] == "zeros"] == [262144]' \
	'of("checkpoint")[0]["parent_version"] == 100'
run 1 show ck heat@150
has err 'no checkpoint of "heat" with version 150'
run 1 show ck heat@300:9
has err 'generation 9'
run 0 show ck 'wave "1"' --json
json 'of("region")[0]["region"] == "he said \"hi\"\n"'
run 0 show ck 'wave "1"'
has out 'he said "hi"\\x0a'

run 0 stats ck
has out '^names  *2$'
has out '^checkpoints  *4$'
run 0 stats ck --json
json 'lines[-1]["bytes_stored"] <= lines[-1]["bytes"] and lines[-1]["checkpoints"] == 4' \
	'[s["name"] for s in of("space")] == ["heat", "wave \"1\""]' \
	'all(0 < s["bytes_live"] <= s["bytes_kept"] <= lines[-1]["bytes"] for s in of("space"))' \
	'all(s["bytes_waste"] == s["bytes_kept"] - s["bytes_live"] for s in of("space"))' \
	'of("space")[0]["newest_attempts"] == 3 and of("space")[0]["bytes_free"] == 0'
check "objects" test "$(find ck -type f ! -path 'ck/tmp/*' ! -path 'ck/.reserve,/*' | wc -l)" -eq "$("$PYTHON" -c 'import json; print(json.loads(open("out").readlines()[-1])["objects"])')"
run 0 stats ck heat
has out '^checkpoints  *3$'
# Why nothing is saved on a full storage.
has out '^free .* of the storage; programs leave 16.0 MiB of it (min_free)$'
VARVE_MIN_FREE=1000000000G run 0 stats ck
has out '^free .* of the storage: less than .* (min_free), so nothing is saved$'
VARVE_MIN_FREE=3M run 0 stats ck --json
json 'lines[-1]["min_free"] == 3 << 20 and 0 < lines[-1]["storage_free"] < 1 << 60'
run 1 stats ck nobody

check "a second life" "$MAKE_STORE" --again "$WORK/ck" heat
run 0 ls ck heat --json
json '[(c["version"], c["generation"]) for c in of("checkpoint")] == [(300, 2), (300, 1), (200, 1), (100, 1)]'
run 0 show ck heat@300
has out '^generation  2$'
run 0 show ck heat@300 -g 1
has out '^generation  1$'
run 0 diff ck heat@200:1 heat@300:2
has out '^no difference in 3 regions$'
finish
