# show: arrays, their shapes, ranges of values, blocks.
. "${SOURCE:?}/lib.sh"
VARVE_CODEC=shuffle-zstd VARVE_STAGING=32M # room for blocks of a whole MiB
export VARVE_CODEC VARVE_STAGING
make_store --arrays

# How well it compresses is not for this test to say.
squeeze() {
	sed -n '/^RANK/,$p' out | sed 's/  */ /g; s/^ //; s/ $//' |
		sed 's/ [0-9.]* \(B\|KiB\|MiB\) \(shuffle-zstd\|none\|zstd\)/ STORED \2/' >shown
}

run 0 show ck field@1
squeeze
is shown <<'END'
RANK REGION TYPE SHAPE SIZE STORED CODEC RANGE ZERO
0 plate f64 256x512 of 1024x512 at 256,0 1.0 MiB STORED shuffle-zstd -1.25 .. 3.5
0 rounded f64 ±1e-06 100x100 78.1 KiB STORED shuffle-zstd 0 .. 3333
0 holes f32 1000 3.9 KiB STORED shuffle-zstd 0 .. 999 NaN!
0 waves c64 64 512 B STORED shuffle-zstd -2 .. 1
0 halves f16 3 6 B STORED none -2 .. 65504
0 brains bf16 3 6 B STORED none -2 .. 3
0 counts u8 3x5x7 105 B STORED none 1 .. 105
0 marks u8 4 4 B STORED none 3 .. 9
0 ground i64 32768 256 KiB 0 B 0 256 KiB
0 big u64 3 24 B STORED none 0 .. 9007199254740994
0 step i32 1 4 B STORED none 400
0 empty f32 0x4 0 B 0 B
0 steps bytes 39.1 KiB STORED none
END
has_not err .

# Part of the block that had 3.5 is still in use, so values are within what it had.
run 0 show ck field@2
has out '  within -1.25 \.\. 3.5$'
has out '  401$'
run 0 show ck field@2 --long
check "digests" grep -q '^ *0  plate .*  2  [0-9a-f]\{32\}$' out
run 0 show ck field --json
json 'of("region")[0]["local"] == [256, 512] and of("region")[0]["first"] == [256, 0] and of("region")[0]["global"] == [1024, 512]' \
	'[r for r in of("region") if r["region"] == "rounded"][0]["bound"] == 1e-06' \
	'[r["lossy"] for r in of("region") if "lossy" in r] == ["zfp"]' \
	'{r["region"]: (r["low"], r["high"], r["has_nan"], r["is_exact"]) for r in of("region") if "low" in r}["plate"] == (-1.25, 3.5, False, False)' \
	'{r["region"]: (r["low"], r["high"], r["has_nan"], r["is_exact"]) for r in of("region") if "low" in r}["holes"] == (0, 999, True, True)' \
	'"low" not in of("region")[-1] and of("region")[-1]["local"] == []' \
	'all(0 <= r["bytes_blocks"] <= r["bytes"] for r in of("region"))' \
	'all(len(r["digest"]) == 32 and r["runs"] >= 0 for r in of("region"))'

# One region and its blocks.
run 0 show ck field@2 plate
has out '^ *0  plate '
has_not out '  rounded '
check "part of a block" grep -q '^ *0  [0-9.]* [KM]iB  shuffle-zstd  *-1.25  *3.5  part of a block: values are within$' out
check "a block of its own" grep -q '^1044480  4.0 KiB  ' out
run 0 show ck field@2 plate --json
json '[(b["offset"], b["bytes"]) for b in of("block")] == [(0, 1044480), (1044480, 4096)]' \
	'of("block")[0]["is_exact"] is False and of("block")[1]["is_exact"] is True' \
	'of("block")[1]["low"] >= 0 and of("block")[1]["high"] < 3'
run 0 show ck field@1 ground --json
json 'of("block") == [{"message_type": "block", "offset": 0, "bytes": 262144, "codec": "zero", "low": 0, "high": 0, "has_nan": False, "is_exact": True}]'
run 0 show ck field@1 steps --json
json 'len(of("block")) >= 1 and all("low" not in b for b in of("block"))'
run 0 show ck field@1 step --rank 0
run 1 show ck field@1 step --rank 1
has err 'no rank 1'
run 1 show ck field@1 nothing
has err nothing
run 1 show ck field@1 --rank 0
has err 'goes with the name of a region'

# Damage does not keep it from showing the rest.
pack=$(find ck -path '*0000000000000001/00000000/00000000')
"$PYTHON" - "$pack" <<'END'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
values, at = bytes(range(1, 106)), -1
while (at := data.find(values, at + 1)) >= 0:
    data[at + 50] ^= 1
open(sys.argv[1], "wb").write(data)
END
run 0 show ck field@1
has out '^ *0  counts .*  none  *? *$'
has out '^ *0  plate .*  -1.25 \.\. 3.5'
run 20 show ck field@1 counts
finish
