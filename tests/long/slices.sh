#!/bin/bash
# slices.sh SOURCE: the machinery of .ci/long with stages that take no time. Each thing is done once, whatever the number of slices; what is done is
# not done again, what failed or was interrupted is; two runs at once share the work; and the table says how far it came.
set -euo pipefail
source=$1
command -v git >/dev/null || { echo "skipped: there is no git"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset GIT_DIR GIT_WORK_TREE SAFETY_SEED "${!VARVE_@}"
build=$folder/build
mkdir "$build" "$folder/tree"
cd "$folder/tree"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q .
commit() { # FILE TEXT
    mkdir -p "$(dirname "$1")"
    echo "$2" >"$1"
    git add "$1"
    git commit -q -m "$2"
}
commit code first
. "$source/.ci/slices"

stage many 7
run_many() {
    part 100
    for ((i = first; i < first + count; i++)); do
        echo "$i" >>"$folder/things"
    done
    echo "many: $count points, seed $seed"
}
stage fragile 3
run_fragile() {
    echo "$slice" >>"$folder/tries"
    echo 1000000 >>"$work/uncounted"
    [ "$slice" -ne 2 ] || [ -e "$folder/mended" ] || false
    echo "fragile: 1 points"
}
stage slow 2
run_slow() {
    echo "$TMPDIR" >"$folder/scratch"
    echo "$slice" >>"$folder/begun"
    [ -e "$folder/mended" ] || sleep "60.$$"
}
stage missing 2
run_missing() {
    if [ "$slice" -eq 2 ] && [ ! -e "$folder/installed" ]; then
        echo "skipped: there is no second thing"
        return 77
    fi
    [ -e "$folder/installed" ] || optional bash -c 'echo "skipped: there is no thing"; exit 77'
    optional echo "slice $slice" >>"$folder/behind"
    [ -e "$folder/sound" ] || optional bash -c 'exit 3'
}

tried() {
    sort "$folder/tries" | xargs
}

expect() { # WHAT WANTED GOT
    [ "$2" = "$3" ] || { echo "$1: wanted '$2', got '$3'"; cat "$build/results"; exit 1; }
}

# The first slice of each; the short stages; the rest by turns.
expect "order" "1 many 1 fragile 2 fragile 3 fragile 2 many 3 many 4 many 5 many 6 many 7 many" "$(order 0 many fragile | xargs)"
expect "order of one" "2 fragile 2 many" "$(order 2 many fragile | xargs)"

slices_of[whole]=1
expect "order where one cannot be cut" "2 many" "$(order 2 many whole | xargs)"

# All things, each once, by two at a time.
run_jobs 2 0 many fragile
expect "things" "$(seq 0 99)" "$(sort -n "$folder/things")"
expect "tries" "1 2 3" "$(tried)"
if report many fragile >"$folder/report"; then
    echo "the report of a failed slice looks like success"
    exit 1
fi
grep -q 'fragile: 2 of 3 slices passed.*FAILED: 2' "$folder/report"

# What has passed is not done again; what failed is.
touch "$folder/mended"
run_jobs 1 0 many fragile
run_jobs 1 0 many fragile
expect "things, later" 100 "$(wc -l <"$folder/things")"
expect "tries, once mended" "1 2 2 3" "$(tried)"
report many fragile

# New words change nothing, new code does, also before it is committed.
commit docs/words.md words
run_jobs 1 0 fragile
expect "tries after new words" "1 2 2 3" "$(tried)"
echo second >code
run_jobs 1 0 fragile
run_jobs 1 0 fragile
expect "tries with code that is not committed" "1 1 2 2 2 3 3" "$(tried)"
commit code second
run_jobs 1 0 fragile
expect "tries after a commit" "1 1 1 2 2 2 2 3 3 3" "$(tried)"

# Interrupted: all of it ends, nothing is said, and it goes on with the same slice.
rm "$folder/mended"
run_jobs 1 0 slow &
runner=$!
for ((i = 0; i < 200; i++)); do
    [ ! -e "$folder/begun" ] || break
    sleep 0.05
done
kill "$runner"
wait "$runner" || true
expect "results of an interrupted slice" "" "$(grep ^slow "$build/results" || true)"
expect "what is left of it" "" "$(pgrep -f "^sleep 60.$$\$" || ls -d "$(cat "$folder/scratch")" 2>/dev/null || true)"
touch "$folder/mended"
run_jobs 1 0 slow
expect "begun" "1 1 2 " "$(tr '\n' ' ' <"$folder/begun")"

# No time is left: nothing is begun.
: >"$build/results"
deadline=$SECONDS
run_jobs 1 0 many
[ ! -s "$build/results" ]
deadline=

# Something is missing: what could not be run is told, does not count as passed, and what comes behind it is run. What else
# is wrong with an optional part is a failure.
run_jobs 1 0 missing
grep -q '^missing	1/2	.*	FAILED' "$build/results"
touch "$folder/sound"
run_jobs 1 0 missing
expect "what comes behind" "slice 1 slice 1" "$(xargs <"$folder/behind")"
grep -q '^missing	1/2	.*	passed, but for what was skipped: there is no thing$' "$build/results"
expect "the report" "missing: 1 of 2 slices passed on $(tested_state), NOT RUN: 1 in part, 2" "$(report missing)"
touch "$folder/installed"
run_jobs 1 0 missing
expect "the report, later" "missing: 2 of 2 slices passed on $(tested_state), NOT RUN: 1 in part" "$(report missing)"

# The table: a row for a stage, and the other rows stay.
run_jobs 1 0 many
run_jobs 1 2 fragile
VARVE_CAPTURE=trap run_jobs 1 2 fragile
cat >docs/campaigns.md <<'END'
| stage | slices | commit | date | points | seconds | outcome |
|---|---|---|---|---|---|---|
| old | all 2 | `1234567` | 2026-01-01 | 1 | 2 | passed |
| many | none | | | | | |

after
END
python3 "$source/.ci/record.py" "$build/results" docs/campaigns.md
cat docs/campaigns.md
state=$(tested_state)
grep -q '^| old | all 2 |' docs/campaigns.md
grep -q "^| many | all 7 | \`$state\` | [-0-9]* | 100 | [0-9]* | passed |$" docs/campaigns.md
grep -q "^| fragile | 1 of 3 | \`$state\` | [-0-9]* | 1 | -[0-9,]* | passed |$" docs/campaigns.md
grep -q "^| fragile VARVE_CAPTURE=trap | 1 of 3 |" docs/campaigns.md
expect "the end of the document" after "$(tail -n 1 docs/campaigns.md)"
