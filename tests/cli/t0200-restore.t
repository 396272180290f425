# restore.
. "${SOURCE:?}/lib.sh"
make_store

for version in 100 200 300; do
	for region in temperature steps zeros; do
		run 0 restore ck heat@$version $region -o got
		same got $version.$region
		rm -f got
	done
done
check "nothing is left over" test -z "$(find . -name "*.partial")"
run 0 restore ck heat note -o got
same got 300.note
has err '^varve: restored note from heat@300'
echo mine >got
run 1 restore ck heat@latest steps -o got
has err 'got is there already'
check "got is untouched" grep -q '^mine$' got
run 0 restore ck heat@latest steps -o got --force
same got 300.steps
run 0 restore ck heat@latest steps --rank 0 -g 1 -o other
same other 300.steps

"$VARVE" restore ck heat@200 temperature -o - >stdout 2>err
check "exit code with -o -" test $? -eq 0
same stdout 200.temperature
has_not err .
run 1 restore ck heat steps -o - --json
has err 'both want stdout'
run 0 restore ck heat steps -o json.bin --json
json 'lines[-1]["bytes"] == 40000 and lines[-1]["version"] == 300'
same json.bin 300.steps

run 1 restore ck heat steps
has err 'where to'
run 1 restore ck heat nothing -o x
has err nothing
run 1 restore ck heat steps --rank 1 -o x
has err 'no rank 1'
run 1 restore ck heat@7 steps -o x
run 1 restore ck heat steps -o no/such/folder
has err 'cannot make no/such/folder'
run 1 restore ck heat steps -o ./
has err 'cannot make ./: Is a directory'
check "no file was made" test ! -e x -a -z "$(find . -name "*.partial")"
echo mine >busy.partial
run 0 restore ck heat steps -o busy
same busy 300.steps
check "a file of the user's stays" grep -q '^mine$' busy.partial
rm busy.partial
if [ -w /dev/full ]; then
	"$VARVE" restore ck heat temperature -o - >/dev/full 2>err
	check "a full disk is an error" test $? -eq 1
	has err 'cannot write to -: No space left'
fi

# A damaged block: no file, exit code 20, and nothing on stdout.
pack=$(find ck -path '*0000000000000064/00000000/00000000')
"$PYTHON" - "$pack" <<'END'
import os, sys
size = os.path.getsize(sys.argv[1])
with open(sys.argv[1], "r+b") as file:
    for at in range(size // 4, size * 3 // 4, 65536):  # wherever its blocks lie among those of others
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
END
run 20 restore ck heat@100 temperature -o damaged
check "no file from a damaged region" test ! -e damaged -a -z "$(find . -name "*.partial")"
run 20 restore ck heat@100 temperature -o -
check "no byte from a damaged region" test ! -s out
finish
