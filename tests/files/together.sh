# The same variable of many files stands together; and versions whose regions come in another order find each other's bytes.
. "${SOURCE:?}/lib.sh"
if [ -z "${H5PYTHON:-}" ] || [ -n "${WITHOUT_HDF5:-}" ]; then
	echo "1..0 # skip no Python with h5py, or a tool without HDF5"
	exit 77
fi
cat >make.py <<'END'
import sys, h5py, numpy
folder, *files = sys.argv[1:]
for path in files:
    names = path.split("+")
    with h5py.File(f"{folder}/{names[0]}", "w") as file:
        for name in names[1:]:
            file[name] = numpy.random.default_rng(sum(map(ord, names[0] + name))).normal(0, 1, 1500)
END
mkdir -p in back
"$H5PYTHON" -B make.py in a+u+v b+v+u c_00:00:01+u+v || exit
names() {
	"$PYTHON" -c '
import json, sys
rows = [json.loads(line) for line in open("out")]
print(" ".join(row["region"] for row in rows if row["message_type"] == "region"))'
}
run 0 import ck run -C in .
run 0 show ck run@0 --json
check "in the order of variables" test "$(names)" = "a:/u b:/u c_00:00:01:/u a:/v b:/v c_00:00:01:/v a b c_00:00:01 :files"

# A file more, with other variables in front: every number changes, and nothing is stored again.
"$H5PYTHON" -B make.py in 0+w+v+u || exit
run 0 import ck run -C in . --json
json 'lines[-1]["bytes_known"] > 3 * 2 * 12000 - 1' 'lines[-1]["bytes_stored"] < 3 * 12000 + 20000'
run 0 show ck run@1 --long
run 0 export ck run@1 -C back
check "all files are the same" diff -r in back
run 0 verify ck

# Whoever says what belongs together is heard.
export VARVE_MATCH='u('
run 1 import ck other -C in .
has err 'environment: match cannot be'
export VARVE_MATCH='^[0ab]'
run 0 import ck other -C in .
unset VARVE_MATCH
echo 'match = v{2' >varve.conf
run 1 import ck other -C in .
has err 'varve.conf:1: match cannot be'
rm varve.conf
finish
