# config, and the manual page made from it.
. "${SOURCE:?}/lib.sh"

run 0 config
check "keep" grep -q '^keep  *0  *default$' out
run 0 config --list
check "keep with bounds" grep -q '^    allowed 0 to 1000000, default 0$' out
run 0 config --json
json 'len({s["name"] for s in of("setting")}) == len(lines) > 10' \
	'all(s["help"] and s["type"] and s["bounds"] for s in lines)'
VARVE_KEEP=3 "$VARVE" config >out 2>err
check "from the environment" grep -q '^keep  *3  *environment$' out
echo 'codec = zstd # small' >varve.conf
run 0 config
check "from a file" grep -q '^codec  *zstd  *varve.conf:1$' out
echo 'codec = gzip' >varve.conf
run 1 config
has err 'varve.conf:1: codec cannot be "gzip"'
rm varve.conf
run 1 config now

"$VARVE" config --man >man.part
sed -n '/^; begin of what/,/^; end of what/p' "$SOURCE/../../docs/man/varve.5.scd" | sed '1d;$d' >man.doc
check "varve.5.scd is up to date (put in what \`varve config --man\` prints)" cmp man.part man.doc
finish
