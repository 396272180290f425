# import and export of trees with symbolic links, and what --exclude leaves out.
. "${SOURCE:?}/lib.sh"

mkdir -p in/sub outside back
echo secret >outside/secret
echo hello >in/hello
echo deep >in/sub/deep
ln -s hello in/relative
ln -s sub in/folder
ln -s ../hello in/sub/up
ln -s /nonexistent/place in/dangling
ln -s "$WORK/outside" in/outside
ln -s loop in/loop
touch -h -d '2001-02-03 04:05:06.789' in/relative

# Links come back as links, whatever they lead to, and nothing behind them is stored.
run 0 import ck links -C in .
has err 'imported 8 files'
run 0 export ck links -C back
check "plain files" cmp in/sub/deep back/sub/deep
for link in relative folder sub/up dangling outside loop; do
	check "$link is a link" test -L "back/$link"
	check "$link leads to the same place" test "$(readlink "in/$link")" = "$(readlink "back/$link")"
done
check "times of links" test "$(stat -c %y in/relative)" = "$(stat -c %y back/relative)"
check "nothing from outside" test "$(find back -type f | wc -l)" -eq 2
check "nothing is left over" test -z "$(find back -name '*partial*')"
run 0 verify ck
check "another reader agrees" "$PYTHON" "$READER" verify ck

# What is there is not replaced unasked, and never written through.
run 1 export ck links -C back relative
has err 'relative is there already'
run 0 export ck links -C back relative --force
check "still a link" test -L back/relative
check "the file it leads to is as it was" test "$(cat back/hello)" = hello
rm back/relative
ln -s "$WORK/outside/secret" back/relative
run 0 export ck links -C back --force
check "replaced, not followed" test "$(readlink back/relative)" = hello
check "what was behind it is as it was" test "$(cat outside/secret)" = secret

# A second checkpoint has a folder where the first one had a link out of it.
mkdir -p evil/outside evil/folder
echo evil >evil/outside/secret
echo evil >evil/folder/deep
run 0 import ck evil -C evil .
run 1 export ck evil -C back
has err 'a link'
run 1 export ck evil -C back --force
check "nothing came through the link to the outside" test "$(cat outside/secret)" = secret
check "nothing came through the link inside" test "$(cat back/sub/deep)" = deep

# Only links; a link by its name; not through a link.
mkdir only third
ln -s away only/one
run 0 import ck only -C only .
run 0 export ck only -C third
check "the link alone" test "$(readlink third/one)" = away
run 0 import ck named -C in folder
rm -r third
mkdir third
run 0 export ck named -C third
check "the link that was named" test "$(readlink third/folder)" = sub
run 1 import ck through -C in folder/deep
has err 'folder is a symbolic link'
run 1 import ck through -C in outside/secret
has err 'outside is a symbolic link'

mkdir fourth
run 1 undump ck only --to fourth
has err 'has folders or links'
check "no link came" test ! -L fourth/one

# Links that changed are seen in the next version.
ln -sfn hello in/folder
run 0 import ck links -C in .
rm -r third
mkdir third
run 0 export ck links -C third
check "the new target" test "$(readlink third/folder)" = hello

# --exclude: names anywhere, paths, folders with all they hold; what cannot be stored can be left out.
mkdir -p tree/src/cache tree/cache tree/doc
for file in a.o b.c src/a.o src/x.c src/cache/y cache/z doc/x.c; do echo "$file" >"tree/$file"; done
mkfifo tree/pipe
run 1 import ck tree -C tree .
has err 'leave it out with --exclude'
run 0 import ck tree -C tree . --exclude '*.o' --exclude cache --exclude pipe --exclude 'doc/*'
rm -r third
mkdir third
run 0 export ck tree -C third
check "what was not excluded" test "$(cd third && find . -type f | sort | tr '\n' ' ')" = "./b.c ./src/x.c "
run 0 import ck tree -C tree . --exclude 'src/*' --exclude pipe --json
json 'lines[-1]["files"] == 4'
run 1 import ck tree -C tree . --exclude '*'
has err 'there are no files'
run 1 import ck tree -C tree . --exclude
has err 'needs a value'
run 1 ls ck --exclude x
has err 'takes no --exclude'
finish
