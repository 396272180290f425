# `varve restore --force` wrote through a link that somebody had put at FILE.partial, into any file of ours. Whatever lies
# beside FILE is neither followed nor overwritten; the same for a link, a pipe or a folder at FILE itself, for export into a
# folder with planted links, and for limit_file.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p in/deep
head -c 100000 /dev/urandom >in/data
cp in/data in/deep/data
chmod 4755 in/deep/data
"$VARVE" import store x -C in . >/dev/null 2>&1
region=$("$VARVE" show store x --json | sed -n 's/.*"region":"\([^"]*\)".*/\1/p' | grep -v varve | head -1)

check() { # WHAT COMMAND...: must be so
    what=$1
    shift
    "$@" || { echo "not so: $what"; exit 1; }
}
refused() { # COMMAND...: must fail, and soon: 124 is the end of the time, more is a signal
    code=0
    timeout 20 "$@" >out 2>&1 || code=$?
    test $code -gt 0 && test $code -lt 124
}

echo precious >victim
ln -s victim got.partial
check "restore writes its file" "$VARVE" restore store x "$region" -o got --force
check "all of it" test -s got
check "the link is still there" test -L got.partial
check "what it leads to is as it was" grep -q '^precious$' victim
for planted in pipe folder dangling; do
    rm -rf got got.partial
    case $planted in
    pipe) mkfifo got.partial ;;
    folder) mkdir got.partial ;;
    dangling) ln -s made got.partial ;;
    esac
    before=$(stat -c '%i %f %Y %Z' got.partial)
    for force in "" --force; do
        check "restore beside a $planted works" timeout 20 "$VARVE" restore store x "$region" -o got $force
        check "all of it, beside a $planted" cmp got in/data
    done
    check "the $planted is as it was" test "$(stat -c '%i %f %Y %Z' got.partial)" = "$before"
done
check "nothing was made through the link beside it" test ! -e made
rm -rf got.partial

# Nobody can guess the name until all of it is right. A restore that is killed for a file too large leaves it behind.
for try in 1 2; do
    code=0
    (ulimit -c 0 && ulimit -f 20 && exec "$VARVE" restore store x "$region" -o killed) >out 2>&1 || code=$?
    check "restore $try was killed by SIGXFSZ, not $code" test $code -eq $((128 + $(kill -l XFSZ)))
done
check "two names of 16 random digits" test "$(ls -A | grep -cE '^\.varve-[0-9a-f]{16}\.partial$')" -eq 2
check "nothing has the right name" test ! -e killed
rm .varve-*

for planted in link pipe folder dangling; do
    rm -rf got
    case $planted in
    link) ln -s victim got ;;
    pipe) mkfifo got ;;
    folder) mkdir got ;;
    dangling) ln -s made got ;;
    esac
    check "restore to a $planted fails" refused "$VARVE" restore store x "$region" -o got
    check "also with --force" refused "$VARVE" restore store x "$region" -o got --force
    check "nothing is left over" test -z "$(find . -name '.varve-*')"
done
check "the victim is as it was" grep -q '^precious$' victim
check "nothing was made through the link" test ! -e made

# Export: a folder on the way, or the file itself, is a link that leads outside.
mkdir outside out1 out2
ln -s ../outside out1/deep
check "no export through a folder that is a link" refused "$VARVE" export store x -C out1 --force
ln -s ../victim out2/data
check "export replaces a link" "$VARVE" export store x -C out2 --force
check "and not what it leads to" grep -q '^precious$' victim
check "it is a file now" test ! -L out2/data
check "set-user-ID is not given back" test -x out2/deep/data -a ! -u out2/deep/data
check "nothing came outside" test -z "$(ls outside)"

# The file that shares a limit.
printf 12345678 >eight
ln -s eight line
check "limit_file is no link" refused "$VARVE" ls "file://$work/store?limit=1GB&limit_file=$work/line"
ln eight twice
check "limit_file has one name" refused "$VARVE" ls "file://$work/store?limit=1GB&limit_file=$work/eight"
check "it is as it was" test "$(cat eight)" = 12345678
