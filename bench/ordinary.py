"""ordinary.py LOAD FILE: sums up the JSON lines of bench-field for one number of ranks, beside the bounds that an ordinary
user may expect. Ends with 1 when one is passed."""

import json
import sys

BLOCKING = 0.15  # of bare, with several ranks
RUNTIME = 0.4  # run time lost, of bare, with several ranks
OF_SYNC = 0.3  # all new: blocked, of what capture=sync blocks
MEMORY = 0.05 + 0.02  # kept by frozen copies, of protected: staging_share and 2 %


def main():
    modes = {}
    with open(sys.argv[2], encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("{"):
                result = json.loads(line)
                modes[result["mode"]] = result
    usual, new, inside = modes["async"], modes["async-unique"], modes["unique"]
    figures = {
        "bench": "ordinary",
        "ranks": usual["ranks"],
        "load": float(sys.argv[1]),
        "blocking_over_bare": usual["blocking_over_bare"],
        "runtime_over_bare": usual["runtime_over_bare"],
        "new_blocked_over_sync": round(new["seconds_blocked"] / inside["seconds_blocked"], 4),
        "new_runtime_over_bare": new["runtime_over_bare"],
        "frozen_memory_over_protected": max(x["frozen_memory_over_protected"] for x in (usual, new)),
        "extra_memory_over_protected": max(x["extra_memory_over_protected"] for x in (usual, new)),
        "new_bytes_frozen": new["later_bytes_frozen"],
        "new_bytes_drained": new["later_bytes_drained"],
        "new_reason": new["capture_reason"],
    }
    passed = []
    if usual["ranks"] > 1 and figures["blocking_over_bare"] > BLOCKING:
        passed.append("blocking_over_bare")
    if usual["ranks"] > 1 and figures["runtime_over_bare"] > RUNTIME:
        passed.append("runtime_over_bare")
    if figures["new_blocked_over_sync"] > OF_SYNC:
        passed.append("new_blocked_over_sync")
    if figures["frozen_memory_over_protected"] > MEMORY:
        passed.append("frozen_memory_over_protected")
    figures["bounds_passed"] = passed
    print(json.dumps(figures), flush=True)
    return 1 if passed else 0


sys.exit(main())
