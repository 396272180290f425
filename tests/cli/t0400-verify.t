# verify, repair, ls with damage.
. "${SOURCE:?}/lib.sh"
make_store

flip() { # FILE OFFSET: invert one bit; a negative offset counts from the end
	"$PYTHON" - "$1" "$2" <<'END'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]), 2 if int(sys.argv[2]) < 0 else 0)
    byte = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([byte[0] ^ 1]))
END
}

run 0 verify ck
has out '^4 checkpoints, .* no damage found$'
run 0 check ck --quick
run 0 verify ck heat --json
json 'lines[-1]["message_type"] == "summary" and lines[-1]["checkpoints"] == 3 and lines[-1]["damaged_objects"] == 0'
cp -a ck whole

# A block of the oldest pack: newer checkpoints that lean on it are lost too.
pack=ck/n/heat/data/00000001/0000000000000064/00000000/00000000
flip $pack 5000
run 20 verify ck
has out '^damage: n/heat/data/00000001/0000000000000064'
run 20 verify ck --json
json 'lines[-1]["damaged_objects"] == len(of("finding")) == 4 and all(f["level"] == "damage" for f in of("finding"))'
run 0 verify ck 'wave "1"'
rm -rf ck && cp -a whole ck

# A record.
record=$(find ck/n/heat/record -type f | sort | head -n 1)
flip "$record" 130
run 20 ls ck
has out 'heat  *300  *1  *damaged'
has err 'heat@300 of generation 1 is damaged'
run 20 ls ck --json
json 'of("checkpoint")[0]["is_damaged"] and of("checkpoint")[0]["reason"]'
run 0 show ck heat
has out '^version     200$'
has err 'heat@300'
run 20 show ck heat@300
run 20 verify ck
run 0 repair ck -n
has out '^n/heat/record/'
run 20 show ck heat@300
run 0 repair ck --json
json 'lines[-1]["repairs"] >= 1'
run 0 show ck heat@300
run 0 verify ck
run 0 repair ck
has out '^nothing to rebuild'

# A record that cannot be read is not called damaged. Which request reads it is not known here: each is tried.
for error in EACCES ETIMEDOUT; do
	: >all
	for call in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		"$VARVE" ls "ck?fault=fail:$call:$error" >out 2>err
		case $? in 0 | 1 | 10) ;; *) fail "$error at call $call of ls: a wrong exit code" ;; esac
		cat out err >>all
	done
	has_not all damaged
	has all 'heat  *300  *1  *unreadable'
	has all 'heat@300 of generation 1 may be whole, .*cannot read n/heat/record/.*: [A-Z]'
	has all '^varve: 1 not read'
done
for call in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	"$VARVE" ls "ck?fault=fail:$call:EACCES" --json >out 2>/dev/null
	grep -q '"is_unreadable":true' out && break
done
json 'of("checkpoint")[0]["is_unreadable"] and "Permission denied" in of("checkpoint")[0]["reason"]' \
	'not any(c["is_damaged"] for c in of("checkpoint")) and lines[-1]["damaged"] == 0 and lines[-1]["unreadable"] == 1'
"$VARVE" forget "ck?fault=fail:$call:EACCES" heat --keep-last 1 -n >out 2>err
has_not out 'heat@300'

# The store object.
rm ck/varve
run 0 ls ck
run 0 repair ck
run 0 verify ck
check "it is back" cmp ck/varve whole/varve
finish
