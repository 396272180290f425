# Help, mistakes in the command line, the address of the store.
. "${SOURCE:?}/lib.sh"

run 0 --version
check "version" grep -q '^varve [0-9]*\.[0-9]*\.[0-9]*$' out
mv out version
run 0 --version --build
check "the version comes first" sh -c 'head -n 1 out | cmp - version'
has out '^codecs lz4 zstd'
has out '^fault points o[nf]'
run 0 --build
has out '^compiler '
run 0 --version --json
json 'of("version")[0]["version"] == of("version")[0]["library_version"]' '"codecs lz4" in of("version")[0]["build"]'
run 0 help
for command in ls show diff stats verify restore forget prune compact repair unlock config; do
	check "help lists $command" grep -q "^  $command " out
done
for command in $(commands) list check gc; do
	"$VARVE" help $command >help.out 2>err
	check "help $command has an example" grep -q '^example: .*varve' help.out
	"$VARVE" $command --help >help2.out 2>err
	same help.out help2.out
done

run 1
has err '^varve: which command'
run 1 frobnicate
has err 'no command "frobnicate"'
run 1 ls
has err 'which store'
run 1 ls x y z
has err '"z" is one argument too many'
run 1 show x
has err 'an argument is missing'
run 1 ls x --force
has err 'ls takes no --force'
run 1 ls x --frob
has err 'no option --frob'
run 1 restore x n r -o
has err 'option -o needs a value'
run 1 restore x n r --rank -1
has err '--rank needs a number'

mkdir empty
run 10 ls nowhere
has err '^varve: .*nowhere'
run 10 ls empty
run 10 ls "file://$WORK/nowhere" --json
json 'of("error")[0]["code"] == "NO_STORE" and of("error")[0]["exit_code"] == 10'

make_store
run 0 ls ck
cp out plain
run 0 ls "file://$WORK/ck"
same out plain
run 0 -s ck ls
same out plain
run 0 ls --store ck
same out plain
VARVE_STORE=ck
export VARVE_STORE
run 0 ls
same out plain
has_not err .
run 0 ls heat
has out '^heat '
run 10 ls ./nowhere
run 0 ls ./ck heat
run 1 ls ck
has err 'no checkpoint of "ck"'
unset VARVE_STORE

run 1 show ck heat@x
has err '"x" is no version'
run 1 show ck heat@100:0
has err '"0" is no generation'
run 1 show ck @100
has err 'name .* is missing'
finish
