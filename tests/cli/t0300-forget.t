# forget, prune.
. "${SOURCE:?}/lib.sh"
make_store

run 1 forget ck
run 1 forget ck heat
has err 'which version of heat'
run 1 forget ck heat@latest
run 1 forget ck heat@100 heat@x
run 0 forget ck heat@100 -n
is out <<'END'
would forget heat@100 of generation 1, 1.3 MiB protected
END
run 0 ls ck heat --json
json 'len(of("checkpoint")) == 3'
run 0 prune ck -n
has out '^0 objects would be removed'

run 0 forget ck heat@100
is out <<'END'
forget heat@100 of generation 1, 1.3 MiB protected
END
has err 'varve prune'
run 0 ls ck heat --json
json '[c["version"] for c in of("checkpoint")] == [300, 200]'
run 1 forget ck heat@100
run 3 forget ck heat@100 heat@200 --json
json 'len(of("error")) == 1 and lines[-1]["forgotten"] == 1 and lines[-1]["failed"] == 1' \
	'of("action")[0]["name"] == "heat" and of("action")[0]["version"] == 200'
run 0 restore ck heat@300 temperature -o got
same got 300.temperature

# 200's own data is needed no more when 300 is gone too; until then nothing that 300 needs goes.
run 0 prune ck --json
json 'lines[-1]["objects"] == len(of("action"))'
run 0 restore ck heat@300 temperature -o got --force
same got 300.temperature
run 0 verify ck
run 0 forget ck heat@300
run 0 prune ck -n
has out '^would remove n/heat/data/'
before=$(find ck/n/heat/data -type f | wc -l)
run 0 prune ck heat
has out '^remove n/heat/data/'
after=$(find ck/n/heat/data -type f 2>/dev/null | wc -l)
check "objects went ($before to $after)" test "$before" -gt 0 -a "$after" -eq 0
run 0 gc ck
has out '^0 objects removed'
run 0 ls ck
has out '^wave'

# One that has lost its data is left alone, and does not push out the last whole one.
rm -rf ck
make_store
rm -r ck/n/heat/data/*/000000000000012c
run 0 forget ck heat --keep-last 1
has err 'heat@300 .* is kept but not counted'
run 0 ls ck heat --json
json '[c["version"] for c in of("checkpoint")] == [300, 200]'

rm -rf ck
make_store
run 0 forget ck heat heat --keep-last 2 -n
is out <<'END'
would forget heat@100 of generation 1, 1.3 MiB protected
END
has err '1 would be forgotten; nothing was changed'
run 0 forget ck --all-names --keep-last 2 -n
is out <<'END'
would forget heat@100 of generation 1, 1.3 MiB protected
END
run 1 forget ck --keep-last 2 -n
has err 'of which names'
run 1 forget ck --all-names
run 1 forget ck heat --all-names --keep-last 2
run 1 forget ck heat --keep-every 100
has err 'goes with --keep-last'
run 1 forget ck heat --keep-last 1 --keep-every 0
run 0 forget ck heat --keep-last 1 --keep-every 100 -n
has err 'nothing to forget'
run 0 forget ck heat --keep-last 1 --keep-every 200 -n
is out <<'END'
would forget heat@100 of generation 1, 1.3 MiB protected
END
run 0 forget ck heat --keep-last 1
check "two went" test "$(grep -c '^forget heat@' out)" -eq 2
run 0 ls ck --json
json '[c["version"] for c in of("checkpoint")] == [300, 1]'
run 0 forget ck heat --keep-last 1
has err 'nothing to forget'
run 1 forget ck nobody --keep-last 1
run 1 forget ck --keep-last 0

# What a running program continues from is refused.
mkfifo end
"$MAKE_STORE" --hold "$WORK/ck" busy <end >ready 2>&1 &
exec 3>end
tries=0
until grep -q ready ready 2>/dev/null || [ $tries -ge 100 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
run 11 forget ck busy@900
run 11 forget ck busy@900 --json
json 'of("error")[0]["code"] == "BUSY"'
run 0 prune ck
exec 3>&-
wait
run 0 forget ck busy@900
finish
