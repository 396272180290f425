# compact: a set of files of which half has changed, so that a third of what is kept is not needed when the first is forgotten.
. "${SOURCE:?}/lib.sh"
make_store

mkdir set
head -c 262144 /dev/urandom >set/data
run 0 import ck files@1 set
{
	head -c 131072 /dev/urandom
	tail -c 131072 set/data
} >changed
mv changed set/data
run 0 import ck files@2 set
run 0 compact ck files
has out '^files: .* nothing to gain'
run 0 forget ck files@1
run 0 stats ck files --json
json '0.3 < of("space")[0]["waste"] < 0.4' 'of("space")[0]["newest_attempts"] == 2'
run 0 compact ck files
has out '^write again files@2 of generation 2$'
has out '^files: .* before, .* now, .* needed$'
has_not err .
run 0 stats ck files --json
json 'of("space")[0]["waste"] < 0.05' 'of("space")[0]["newest_attempts"] == 1' 'of("space")[0]["bytes_free"] == 0'
run 0 verify ck
has_not out '^damage'
mkdir back
run 0 export ck files -C back
same set/data back/set/data

run 0 compact ck --json
json '[s["name"] for s in of("space")] == ["files", "heat", "wave \"1\""]' 'all(s["moved"] == 0 for s in of("space"))'
run 1 compact ck --keep-last 1
has err 'goes with a NAME'
run 0 compact ck heat --keep-last 1
has out '^forget heat@200 of generation 1$'
has out '^forget heat@100 of generation 1$'
run 0 ls ck heat
check "two lines" test "$(wc -l <out)" -eq 2
run 0 verify ck
run 1 compact ck nobody
has err 'nobody'
finish
