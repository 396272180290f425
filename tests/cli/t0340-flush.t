# flush: what a further store does not have yet is copied there.
. "${SOURCE:?}/lib.sh"
make_store
unset VARVE_TIERS

run 1 flush ck
has err 'where to? Give --to ADDRESS, or set tiers'
run 0 flush ck --to to --dry-run
check "nothing is made" test ! -e to
run 0 copy ck heat@100 to
run 0 ls ck heat
there=$(grep -c '^heat' out)
run 0 flush ck heat --to to
check "all but the one that was there" test "$(grep -c '^heat@[0-9]* copied to to: ' out)" -eq $((there - 1))
run 0 diff ck heat to heat
run 0 ls to heat
check "as many as before" test "$(grep -c '^heat' out)" -eq "$there"
run 0 flush ck heat --to to
has out '^to has the newest already$'

# All names, and the stores that the setting tells.
VARVE_TIERS='to;second' run 0 flush ck --json
json 'len(of("summary")) == 2' 'of("summary")[1]["to"] == "second"' 'of("summary")[1]["copied"] > of("summary")[0]["copied"]' \
	'all(line["bytes_written"] > 0 for line in of("copied"))' 'all(line["to"] in ("to", "second") for line in of("copied"))'
run 0 verify second
VARVE_TIERS='to;second' run 0 flush ck
has out '^second has the newest already$'

# One that cannot be reached is told, and the others get theirs.
VARVE_TIERS='/nowhere/at/all;third' run 10 flush ck
has err 'parent folder does not exist'
run 0 verify third
run 1 flush ck nobody --to to
has err 'nobody'
run 10 flush nothing --to to

# A record that is damaged is told, and the others are copied. One older than what is there is of no interest.
run 0 copy ck heat@100 half
record=$(find ck/n/heat/record -type f | sort | head -n 1)
cp "$record" kept
printf 'damage' >"$record"
run 20 flush ck heat --to half
has err 'heat@300 of generation 1 is not copied: it is damaged: '
has out '^heat@200 copied to half: '
run 20 flush ck heat --to half --json
json 'of("error")[0]["exit_code"] == 20' 'of("summary")[0]["copied"] == 0'
cp kept "$record"
run 0 flush ck heat --to half
has out '^heat@300 copied to half: '
record=$(find ck/n/heat/record -type f | sort | tail -n 1)
printf 'damage' >"$record"
run 0 flush ck heat --to half
has out '^half has the newest already$'

# What was saved later by another run there stays the newest: nothing is copied over it unless that is said.
rm -rf ck
make_store
mkdir later
"$MAKE_STORE" "$WORK/other" "$WORK/later" >make.out 2>&1
run 0 forget other heat@200
run 0 forget other heat@300
run 1 flush ck heat --to other
has err 'version 100 there .*no copy of this one'
run 0 forget ck heat@100
run 1 flush ck heat --to other
has err 'version 100 of heat in other was saved later than version 300 here'
run 0 ls other heat
check "nothing was copied" test "$(grep -c '^heat' out)" -eq 1
run 0 copy ck heat@300 other
finish
