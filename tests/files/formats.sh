# HDF5 and netCDF files of every layout, in three versions: the variables are found, and the files come back byte for byte.
. "${SOURCE:?}/lib.sh"
if [ -z "${H5PYTHON:-}" ]; then
	echo "1..0 # skip no Python with h5py"
	exit 77
fi
for version in 0 1 2; do
	"$H5PYTHON" -B "$FILES/make_samples.py" in/$version $version || exit
	run 0 import ck run@$version -C in/$version . --json
	[ -n "${WITHOUT_HDF5:-}" ] || json 'lines[-1]["notes"] == 0' 'lines[-1]["version"] == '$version
done
for version in 0 1 2; do
	mkdir -p back/$version
	run 0 export ck run@$version -C back/$version
	check "version $version is the same" diff -r in/$version back/$version
	if command -v h5diff >/dev/null; then
		for file in old.h5 latest.h5 user.h5 sub/user-latest.h5; do
			check "h5diff sees no difference in $file" h5diff in/$version/$file back/$version/$file
		done
	fi
done
run 0 verify ck
if [ -n "${WITHOUT_HDF5:-}" ]; then
	finish
fi

run 0 show ck run@1 --json
cat >expect.py <<'END'
import json
regions = {}
for line in open("out"):
    message = json.loads(line)
    if message["message_type"] == "region":
        regions[message["region"]] = message
for file in "old.h5", "latest.h5", "user.h5", "sub/user-latest.h5":
    for name, kind, size in [
            ("single", "f32", 12000), ("mesh", "f64", 72000), ("chunked", "f64", 4 * 3 * 16 * 32 * 8), ("gzip", "bytes", None),
            ("grows", "f64", 3 * 4 * 600 * 8), ("half", "f64", 2 * 64 * 64 * 8), ("a/b/integers", "i32", 16000),
            ("a/b/big-endian", "bytes", 16000), ("a/b/complex", "c128", 16000), ("a/b/f16", "f16", 8000),
            ("a/b/compound", "bytes", 28000)]:
        region = regions[f"{file}:/{name}"]
        assert size in (None, region["bytes"]), region
        assert region["type"] == kind, region
    # The same data set under two names is stored once, under either.
    assert (f"{file}:/contiguous" in regions) != (f"{file}:/again" in regions)
    assert not any(name.endswith(("unwritten", "soft", "empty", "none")) for name in regions)
    assert regions[file]["bytes"] < 50000, regions[file]
for file in "strange.h5", "strange-old.h5":
    assert {name.split("/")[-1] for name in regions if name.startswith(file + ":")} == {"scaled", "sums", "two", "one"}
    assert regions[f"{file}:/two"]["type"] == regions[f"{file}:/one"]["type"] == "f64"
    assert regions[f"{file}:/sums"]["type"] == "bytes"
if "v4.nc" in regions:
    assert regions["v4.nc:/moving"]["type"] == "f32"
    for file in "classic.nc", "offset64.nc", "data64.nc":
        assert regions[f"{file}:still"]["bytes"] == 30 * 41 * 8
        assert regions[f"{file}:moving"]["bytes"] == 6 * 30 * 41 * 4
        assert regions[f"{file}:counts"]["bytes"] == 6 * 30 * 41 * 2
        assert f"{file}:mask" not in regions
        assert regions[file]["bytes"] < 4000
        # The same bytes, wherever the file has them.
        assert regions[f"{file}:moving"]["digest"] == regions["classic.nc:moving"]["digest"]
for name in "chunked", "gzip", "grows", "half", "mesh":
    digests = {regions[f"{file}:/{name}"]["digest"] for file in ("old.h5", "latest.h5", "user.h5", "sub/user-latest.h5")}
    assert len(digests) == 1, name
END
check "the variables were found" "$PYTHON" expect.py

# What an earlier version has is not stored again.
run 0 import ck run@3 -C in/2 . --json
json 'lines[-1]["bytes_stored"] < 60000'
finish
