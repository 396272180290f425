# import and export of any files: what is stored, what is refused, and what comes back.
. "${SOURCE:?}/lib.sh"

mkdir -p in/sub/deep back other
printf 'hello\n' >in/hello
: >in/sub/empty
head -c 3000000 /dev/urandom >in/sub/deep/random
truncate -s 5000000 in/sparse
printf x >>in/sparse
printf 'colon\n' >'in/:files'
chmod 600 in/hello
chmod 755 in/sub/deep/random
touch -d '2001-02-03 04:05:06.789' in/hello

# Back as it was, with permissions and times.
run 0 import ck run -C in .
has err 'imported 5 files as run@0'
run 0 export ck run -C back
has err 'exported 5 files of run@0'
check "all files are the same" diff -r in back
check "permissions" test "$(stat -c %a back/hello back/sub/deep/random)" = "600
755"
check "times" test "$(stat -c %y back/hello)" = "$(stat -c %y in/hello)"
check "holes stay holes" test "$(stat -c %b back/sparse)" -lt 1000
check "nothing is left over" test -z "$(find back -name '*partial*')"
run 0 verify ck

# Versions: the next one, one that is named, never one that is there.
printf 'changed\n' >in/hello
run 0 import ck run -C in . --json
json 'lines[-1]["version"] == 1 and lines[-1]["files"] == 5 and lines[-1]["bytes"] == 8000015' \
	'lines[-1]["bytes_stored"] > 0 and lines[-1]["notes"] == 0'
run 0 import ck run@7 in/hello ./in//sub/
run 1 import ck run@7 in/hello
has err 'is there already'
run 0 import ck run@7 in/sub --force
run 0 export ck run@7 -C other
check "of the newest generation" test ! -e other/in/hello -a -e other/in/sub/empty
run 0 export ck run@7 -g 3 -C other in/hello
same other/in/hello in/hello
run 0 import ck run -C in hello
has err 'as run@8'

# Only some, and nothing in the way of others.
rm -rf back
mkdir back
run 0 export ck run@1 -C back sub hello --json
json 'sorted(l["path"] for l in lines if l["message_type"] == "file") == ["hello", "sub/deep/random", "sub/empty"]' \
	'lines[-1]["files"] == 3'
same back/hello in/hello
check "no other file" test ! -e back/sparse
run 1 export ck run@1 -C back nothing
has err 'no file nothing'
echo mine >back/hello
rm -r back/sub
run 1 export ck run@1 -C back
has err 'hello is there already'
check "nothing was written" test "$(find back -type f | wc -l)" -eq 1
check "mine is untouched" grep -q mine back/hello
run 0 export ck run@1 -C back --force
check "replaced" diff -r in back

# Whatever others are called: nothing is mistaken for what is half-way.
mkdir names third
for name in a a.partial a.partial.partial b b.partial .varve-1.partial; do echo "this is $name" >"names/$name"; done
run 0 import ck names -C names .
for round in 1 2; do
	run 0 export ck names -C third --force
	check "all of them are the same" diff -r names third
done
run 0 export ck names -C third --force a b
check "the others are still there" diff -r names third
rm -r third
mkdir third
echo mine >third/hello.partial
run 0 export ck run@1 -C third hello
check "a file of the user's stays" grep -q mine third/hello.partial
rm third/hello
ln -s nowhere third/sub
run 1 export ck run@1 -C third
check "also when it fails" grep -q mine third/hello.partial
check "nothing else is left over" test "$(find third -type f)" = third/hello.partial
mkdir other/hello
run 1 export ck run@1 -C other --force
has err 'cannot replace hello'
run 1 export ck run@1 -C no/such/folder
has err 'cannot open the folder'

# Never outside of the folder.
rm -rf back elsewhere
mkdir back elsewhere
ln -s ../elsewhere back/sub
run 1 export ck run@0 -C back
has err 'a link'
check "nothing came through the link" test -z "$(ls elsewhere)"
check "nothing is left over" test -z "$(find back -type f)"
rm back/sub
ln -s ../elsewhere/hello back/hello
run 1 export ck run@0 -C back hello
run 0 export ck run@0 -C back hello --force
check "the link was replaced, not followed" test ! -e elsewhere/hello -a ! -L back/hello

# What cannot be stored.
run 1 import ck bad "$WORK/in/hello"
has err 'give the folder with -C'
run 1 import ck bad in/../in/hello
run 1 import ck bad ..
run 1 import ck bad missing
has err 'cannot look at missing'
mkfifo in/pipe
run 1 import ck bad in
has err 'in/pipe is a named pipe'
rm in/pipe
mkdir nothing
run 1 import ck bad nothing
has err 'there are no files'
run 1 import ck bad -C missing .
run 1 import ck
run 1 import ck bad@x in
run 1 import ck bad@1:1 in
run 0 ls ck
has_not out bad

# Not made by import.
run 10 export nowhere run
run 1 export ck nobody -C back
run 0 show ck run@0
has out ':files'

# A file that is written meanwhile: nothing is stored.
truncate -s 200M big
(while [ ! -e stop ]; do echo more >>growing; done) &
writer=$!
while [ ! -s growing ]; do :; done
run 1 import ck moving big growing
: >stop
wait $writer
has err 'changed while it was read'
run 0 ls ck
has_not out moving

# Stopped: no checkpoint, and the name is free.
truncate -s 64G huge
"$VARVE" import ck stopped huge 2>err &
sleep 0.5
kill -TERM $!
wait $!
check "exit code of an interrupted import" test $? -eq 130
run 0 ls ck
has_not out stopped
run 0 import ck stopped in/hello

# What is there is not leant on when it is damaged.
flip() {
	"$PYTHON" - "$1" "$2" <<'END'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    byte = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([byte[0] ^ 1]))
END
}
run 0 import ck leaning -C in/sub . --json
run 0 import ck leaning -C in/sub . --json
json 'lines[-1]["bytes_stored"] < 20000' 'lines[-1]["notes"] == 0'
flip "$(find ck/n/leaning -path '*/00000001/0000000000000000/00000000/00000000')" 1500000
run 0 import ck leaning -C in/sub . --json
json 'lines[-1]["bytes_stored"] > 3000000' 'lines[-1]["notes"] == 1' \
	'[l for l in lines if l["message_type"] == "note"][0]["name"] == "leaning"'
rm -rf back
mkdir back
run 0 export ck leaning -C back
check "the damage is not inherited" diff -r in/sub back
run 20 export ck leaning@1 -C back deep/random --force
run 0 import ck leaning -C in/sub . --json
json 'lines[-1]["bytes_stored"] < 20000' 'lines[-1]["notes"] == 0'

# A store among the files is not imported into itself, and an import does not get between a program's checkpoints.
cp -r ck in/inside
run 1 import ck self -C in .
has err 'inside is a Varve store'
rm -rf in/inside
mkdir folder
"$MAKE_STORE" "$PWD/program" "$PWD/folder" >/dev/null
name=$("$VARVE" ls program --json | "$PYTHON" -c 'import json, sys; print([json.loads(l) for l in sys.stdin][0]["name"])')
run 1 import program "$name" -C in .
has err 'holds checkpoints of a program'

# Paths as people write them.
rm -rf back
mkdir back
run 0 export ck run@0 -C back ./sub/empty
check "only that" test "$(find back -type f | wc -l)" = 1
run 0 export ck run@0 -C back . --force

# Damage: exit code 3 while other files are well, and no file that is not right.
rm -rf back
mkdir back
pack=$(find ck/n/run -path '*/00000001/0000000000000000/00000000/00000000')
flip "$pack" 1500000
run 3 export ck run@0 -C back
has err 'sub/deep/random cannot be given back'
check "no damaged file" test ! -e back/sub/deep/random -a -e back/sub/empty
check "nothing is left over" test -z "$(find back -name '*partial*')"
finish
