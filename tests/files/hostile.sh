# Files that are damaged, cut, or mean harm: each comes back byte for byte, whatever was found in it.
. "${SOURCE:?}/lib.sh"
if [ -n "${H5PYTHON:-}" ]; then
	"$H5PYTHON" -B "$FILES/make_samples.py" good 0 || exit
fi
"$PYTHON" -B "$FILES/make_hostile.py" good bad "${SEED:-1}" || exit 1
run 0 import ck bad -C bad .
mkdir back
run 0 export ck bad -C back
check "everything came back" diff -r bad back
run 0 verify ck
finish
