#!/bin/bash
# Do what a page says: page.sh PAGE BUILD WORK
#
# A block of code whose first line is a comment that names a file is saved as that file; the sh blocks are run in order, in one shell,
# with the build installed in $HOME/varve; what the page shows as text must be printed by them. Text of a block of one line is an
# example of something else.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
page=$1
build=$2
mkdir -p "$3"
work=$(mktemp -d "$(realpath "$3")/page.XXXXXX")
trap 'rm -rf "$work"' EXIT
export HOME=$work
# Where Open MPI would refuse: root, and fewer cores than ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
cmake --install "$build" --prefix "$HOME/varve" >/dev/null
cd "$work"
python3 - "$page" <<'END'
import re
import sys

page = open(sys.argv[1]).read()
blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.S | re.M)
saved = []
for _, text in blocks:
    name = re.match(r"(?:!|//|#) (\w+\.\w+): ", text)
    if name:
        open(name.group(1), "w").write(text)
        saved.append(name.group(1))
if not blocks or blocks[0][0] == "sh" or not saved:
    sys.exit("a page begins with a whole program")
open("commands", "w").write("".join(text for kind, text in blocks if kind == "sh"))
open("shown.md", "w").write("".join(f"```text\n{text}```\n" for kind, text in blocks if kind == "text" and text.count("\n") > 1))
END
bash -e commands >told 2>&1 </dev/null || { cat told; echo "FAILED: a command of $page"; exit 1; }
cat told
python3 "$source/tests/tutorial/shown.py" shown.md told
