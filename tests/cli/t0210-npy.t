# restore as NumPy files.
. "${SOURCE:?}/lib.sh"
make_store --arrays

# head DESCR SHAPE: the head that a file of version 1.0 must have, to the last byte.
head_of() {
	"$PYTHON" - "$1" "$2" >wanted <<'END'
import sys
text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % tuple(sys.argv[1:])
text += " " * (-(len(text) + 11) % 64) + "\n"
sys.stdout.buffer.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
END
}

# npy REGION DESCR SHAPE: restored by the name of the file, it is this head and the bytes of the region.
npy() {
	rm -f got.npy
	run 0 restore ck field@1 "$1" -o got.npy
	head_of "$2" "$3"
	check "$1 is aligned" test $(($(wc -c <wanted) % 64)) -eq 0
	if [ "$1" = rounded ]; then
		"$VARVE" restore ck field@1 rounded -o - >data
	else
		cp 1."$1" data
	fi
	cat data >>wanted
	same got.npy wanted
	cp got.npy "$1.npy"
}
npy plate '<f8' '(256, 512)'
npy rounded '<f8' '(100, 100)'
npy holes '<f4' '(1000,)'
npy waves '<c8' '(64,)'
npy halves '<f2' '(3,)'
npy counts '|u1' '(3, 5, 7)'
npy ground '<i8' '(32768,)'
npy big '<u8' '(3,)'
npy step '<i4' '(1,)'
npy empty '<f4' '(0, 4)'
npy steps '|u1' '(40000,)'

# Which format: what is asked for, else what the name says.
run 0 restore ck field@1 plate -o raw.npy --format raw
same raw.npy 1.plate
run 0 restore ck field@1 plate -o plate.bin --format npy
same plate.bin plate.npy
run 0 restore ck field@1 plate -o other.bin
same other.bin 1.plate
"$VARVE" restore ck field@1 plate -o - --format npy >stdout 2>err
same stdout plate.npy
"$VARVE" restore ck field@1 empty -o - --format npy >stdout 2>err
same stdout empty.npy
run 0 restore ck field@1 plate -o json.npy --json
json 'lines[-1]["format"] == "npy" and lines[-1]["bytes"] == 1048576'
run 1 restore ck field@1 plate -o x --format hdf5
has err 'there is no format "hdf5"'
run 1 restore ck field@1 nothing -o x.npy
has err nothing
run 1 restore ck field@1 brains -o x.npy
has err 'bf16, which NumPy does not have; --format raw'
check "no file was made" test ! -e x -a ! -e x.npy -a -z "$(find . -name "*.partial")"
run 0 restore ck field@1 brains -o x.npy --format raw
same x.npy 1.brains

# A bound is kept, and what came back is stored as it is.
"$PYTHON" - <<'END' >check.out 2>&1
import array
was, now = array.array("d"), array.array("d")
was.frombytes(open("1.rounded", "rb").read())
now.frombytes(open("rounded.npy", "rb").read()[128:])
assert len(was) == len(now) == 10000
assert max(abs(a - b) for a, b in zip(was, now)) <= 1e-6
END
check "within the bound" test $? -eq 0

# Any Python with NumPy will do.
numpy=
for python in "$PYTHON" /usr/bin/python3 python3; do
	"$python" -c 'import numpy' 2>/dev/null && numpy=$python && break
done
if [ -z "$numpy" ]; then
	pass "NumPy reads them # skip NumPy is missing"
	finish
fi
cat >look.py <<'END'
import numpy
types = {"plate": "<f8", "rounded": "<f8", "holes": "<f4", "waves": "<c8", "halves": "<f2", "counts": "u1", "ground": "<i8",
         "big": "<u8", "step": "<i4", "empty": "<f4", "steps": "u1"}
shapes = {"plate": (256, 512), "rounded": (100, 100), "holes": (1000,), "waves": (64,), "counts": (3, 5, 7), "empty": (0, 4)}
for name, kind in types.items():
    got = numpy.load(name + ".npy")
    assert got.dtype == numpy.dtype(kind), name
    assert got.shape == shapes.get(name, got.shape), name
    assert got.flags.c_contiguous, name
    if name != "rounded":
        assert got.tobytes() == open("1." + name, "rb").read(), name
    numpy.load(name + ".npy", mmap_mode="r" if got.size else None)
assert numpy.load("plate.npy")[3, 5] == -1.25 and numpy.load("plate.npy")[255, 7] == 3.5
assert numpy.load("counts.npy")[2, 4, 6] == 105 and numpy.load("waves.npy")[50].real == -2
assert list(numpy.load("halves.npy")) == [1, -2, 65504]
END
check "NumPy reads them" "$numpy" look.py
finish
