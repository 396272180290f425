# What the tool prints must not command the terminal, whatever a store's names are: in tables, messages and JSON no control
# character comes through. JSON let those between U+0080 and U+009F pass, and marks that turn the order of writing around.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
name=$'x\e[31m\n\xc2\x9bm\xe2\x80\xae\xff'
mkdir files
echo data >"files/$name"
"$VARVE" import store "$name" -C files "$name" >out 2>err || { cat err; exit 1; }
for command in "ls store" "show store" "stats store" "verify store" "forget store" "prune store"; do
    set -- $command
    case $1 in
    show) set -- "$@" "$name" ;;
    forget) set -- "$@" "$name@77" ;;
    esac
    "$VARVE" "$@" >>out 2>>err || true
    "$VARVE" "$@" --json >>json 2>>err || true
done
"$VARVE" export store "$name" -C . >>out 2>>err
# An end of line may end a line; other controls, in ASCII or above, have no place.
if LC_ALL=C grep -nP '[\x00-\x08\x0b-\x1f\x7f\xff]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]' out err json; then
    echo "a control character came through"
    exit 1
fi
grep -q '\\x1b\[31m\\x0a\\xc2\\x9bm' out
grep -q '\\u001b\[31m\\u000a\\u009bm\\u202e\\ufffd' json
# The file itself has the name that it had.
cmp "files/$name" "$name"
