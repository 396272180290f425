# Everybody who built the library built the benchmarks, too, and waited for them. A build that nobody asked for them must have no target
# and no test of theirs; VARVE_BENCH=ON must bring them.
set -u
command -v cmake >/dev/null && command -v ninja >/dev/null || { echo "skipped: cmake or ninja is missing"; exit 77; }
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT

fail() {
	echo "$1"
	exit 1
}

# configure OPTION...: only that, nothing is compiled; then what could be built is in the file targets.
configure() {
	cmake -S "$SOURCE" -B "$WORK/build" -G Ninja "$@" >"$WORK/log" 2>&1 || { cat "$WORK/log"; exit 1; }
	ninja -C "$WORK/build" -t targets all >"$WORK/targets" || fail "ninja does not tell the targets"
}

configure
grep -q '^varve_cli:' "$WORK/targets" || fail "the tool is no target: this test looks at the wrong place"
grep -E '(^|/)(test_)?bench[-_]' "$WORK/targets" && fail "these are built although nobody asked for benchmarks"
(cd "$WORK/build" && ctest -N) | grep -i bench | grep -v found_bench_option && fail "these test what is not built"

configure -DVARVE_BENCH=ON -DBUILD_TESTING=OFF
grep -q '^bench-field:' "$WORK/targets" || fail "VARVE_BENCH=ON brings no benchmarks"
exit 0
