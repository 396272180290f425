# pin, unpin: with forget, prune and compact.
. "${SOURCE:?}/lib.sh"
make_store

run 1 pin ck
run 1 pin ck heat@x
run 1 pin ck nothing@1
run 1 unpin ck heat
has err 'which version of heat'
run 1 unpin ck heat@100
has err 'is not pinned'
run 0 ls ck heat
has_not out PIN
run 0 pin ck heat@100 --reason 'figure 3'
is out <<'END'
pin heat@100 of generation 1
END
run 0 pin ck heat@100 --reason 'another one' --json
json 'of("action")[0]["is_changed"] == False and of("action")[0]["version"] == 100'
run 0 ls ck heat
has out 'PIN$'
has out 'heat  *100 .*pinned$'
run 0 ls ck --json
json '[c["version"] for c in of("checkpoint") if c["is_pinned"]] == [100]'
run 0 show ck heat@100
has out '^pinned .* on .*: figure 3$'
run 0 show ck heat@100 --json
json 'of("checkpoint")[0]["is_pinned"] and of("checkpoint")[0]["pin_reason"] == "figure 3"'
run 0 show ck heat@200 --json
json 'not of("checkpoint")[0]["is_pinned"]'
run 1 pin ck heat@200 --reason "$(printf '%0300d' 0)"
has err '255 bytes'
printf 'x\033[31m' >reason
run 0 pin ck heat --reason "$(cat reason)"
run 0 show ck heat@300
has out 'x\\x1b'
run 0 unpin ck heat@300

run 11 forget ck heat@100
has err 'heat@100 of generation 1 is pinned (figure 3): .*varve unpin'
run 0 forget ck heat --keep-last 1
has out '^forget heat@200'
has_not out 'heat@100'
has err '1 pinned checkpoint is kept'
run 0 forget ck heat --keep-last 1 --keep-every 7 --json
json 'lines[-1]["pinned"] == 1 and lines[-1]["kept"] == 2 and lines[-1]["forgotten"] == 0'
run 0 prune ck
run 0 verify ck
run 0 restore ck heat@100 temperature -o got
same got 100.temperature

# The copy that a compaction makes is pinned in the place of the original.
mkdir set
head -c 262144 /dev/urandom >set/data
run 0 import ck files@1 set
{
	head -c 131072 /dev/urandom
	tail -c 131072 set/data
} >changed
mv changed set/data
run 0 import ck files@2 set
run 0 forget ck files@1
run 0 pin ck files@2 --reason 'to be copied'
run 0 compact ck files
has out '^write again files@2 of generation 2$'
run 0 show ck files@2 --json
json 'of("checkpoint")[0]["generation"] == 3 and of("checkpoint")[0]["pin_reason"] == "to be copied"'
run 0 ls ck files --json
json 'len(of("checkpoint")) == 1'
check "the pin has moved" test "$(find ck/n/files -name 'pin.*' | wc -l)" -eq 1

# --keep-last leaves pinned ones.
run 0 compact ck heat --keep-last 1
run 0 ls ck heat --json
json '[(c["version"], c["is_pinned"]) for c in of("checkpoint")] == [(300, False), (100, True)]'
run 0 show ck heat@100
has out ': figure 3$'
run 0 restore ck heat@100 temperature -o got --force
same got 100.temperature

# Damaged, it counts, and is named.
for pin in ck/n/heat/pin.*; do :; done
check "there is one pin" test -f "$pin"
printf 'x' >"$pin"
run 20 verify ck
has out 'pin\..* it counts as a pin'
run 11 forget ck heat@100
run 0 show ck heat@100
has out '^pinned  *yes: cannot be read'
run 0 unpin ck heat@100
run 0 verify ck
run 0 forget ck heat@100
has out '^forget heat@100'
run 0 prune ck
check "no pin is left" test -z "$(find ck/n/heat -name 'pin.*')"
finish
