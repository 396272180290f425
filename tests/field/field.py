"""Faults that were demonstrated in FTI 1.6, VELOC 1.8 and SCR 3.1, done to Varve: one test per fault.

    field.py --job FIELD-JOB --varve VARVE [--kind openmpi|mpich] [--seed N] [--keep] ROW...      (or: all)

Each function is a row of the table in the documentation; its text says the fault, what it did there, and what is right. For each row one
line is printed, and the exit code is 1 if one of them failed, or 77 without mpirun."""

import argparse
import os
import shutil
import sys
import tempfile
import time

import mpijob
from scene import NAME, RANKS, Failed, change_bytes, cut, expect, torn_copy

ROWS = {}


def row(function):
    ROWS[function.__name__] = function
    return function


def kill_at_points(scene, points, *there):
    """Kill rank 0 at each of these points of checkpoint 3, with keep=2: 3 is restored, and `there` can be restored, too. Everything
    changes each time, so that old data is really removed."""
    for point in points:
        store = scene.fresh()
        run = scene.killed(store, "change:100", "set:keep=2", "fault:0:" + point)
        expect(run is not None, "%s was not met" % point)
        scene.expect_there(store, *there, setup=["change:100"])
        scene.expect_restart(store, 3, ["change:100"])
        scene.verify(store, 0)


def kill_at_times(scene, times, *setup, size=3072, change=20, latency="4ms", tries=0):
    """SIGKILL of rank 1 at these moments (and `tries` random ones) of checkpoint 3: the newest one that is complete on storage is
    restored. Returns which, and how long an undisturbed checkpoint took."""
    acts = ["size:%d" % size, "change:%d" % change, *setup]
    parameters = "?latency=" + latency
    whole = scene.fresh()
    length = scene.run_whole(whole, *acts, "open:" + NAME, "save:1-3", parameters=parameters).ms[-1]
    tries = tries * int(os.environ.get("TEST_SCALE", "100")) // 100
    times = list(times) + [scene.random.uniform(0, length) for _ in range(tries)]
    restored = []
    for ms in times:
        store = scene.fresh()
        run = scene.killed(store, *acts, "kill:1:3:%.3f" % ms, parameters=parameters)
        if run is None:
            continue
        version = scene.newest_complete(store, 3)
        scene.expect_restart(store, version, acts)
        scene.verify(store, 0)
        restored.append(version)
    expect(len(restored) * 3 >= len(times), "only %d of %d kills came before the end" % (len(restored), len(times)))
    return "killed %d times within %.0f ms, restored %d x checkpoint 2 and %d x checkpoint 3, each on both ranks" % (
        len(restored), length, restored.count(2), restored.count(3))


# ---- FTI ----

@row
def F1(scene):
    """Rank 0 is killed inside the commit of checkpoint 3, while old ones are deleted and before the new one has its name. FTI loses
    all three. Right: 3 was complete, so 3 is restored, and 2 is there as keep=2 says."""
    before = ["store.commit.before_claims=kill:3", "store.commit.before_parent=kill:3", "store.writers.before_create=kill:3"]
    deleting = ["store.forget.before_replace=kill", "store.forget.after_replace=kill", "store.prune.before_records=kill",
                "store.prune.before_data=kill", "store.prune.before_remove=kill"]
    kill_at_points(scene, before, 3, 2, 1)
    kill_at_points(scene, deleting, 3, 2)
    return "rank 0 killed at %d points before the commit and while deleting: restored 3 on both ranks" % len(before + deleting)


@row
def F2(scene):
    """The same between data and metadata. FTI loses all three. Right: 3 is restored, since all its data is there."""
    points = ["store.writers.after_create=kill:3", "store.record.before_create=kill:3", "store.record.after_create=kill:3",
              "store.beat.before_refer=kill:3", "store.beat.after_refer=kill:3"]
    kill_at_points(scene, points, 3, 2)
    return "rank 0 killed at %d points between data and record, and after it: restored 3 on both ranks" % len(points)


@row
def F3(scene):
    """One rank has put its part of checkpoint 3 in place, the other is killed before. FTI loses all. Right: 2 on both ranks."""
    for victim in range(RANKS):
        for _ in range(20):
            store = scene.fresh()
            run = scene.killed(store, "set:keep=2", "fault:%d:store.pack.before_seal=kill:3" % victim)
            expect(run is not None, "nobody was killed")
            if scene.votes(store, 3) == [1 - victim]:
                break
        expect(scene.votes(store, 3) == [1 - victim], "the other rank never was the faster one")
        scene.expect_there(store, 2, 1)
        scene.expect_restart(store, 2)
        scene.verify(store, 0)
    return "checkpoint 3 in place on one rank only, either way round: restored 2 on both ranks"


@row
def F4(scene):
    """2 bytes of the newest data, or of old data it leans on, are changed. FTI notices, and has nothing else to restart from. Right:
    noticed, named, and the newest whole one is restored on all ranks; when all lean on the damage, all ranks get the same error."""
    store = scene.save()
    cases = []
    for rank in range(RANKS):
        copy = scene.copy(store)
        change_bytes(scene.pack(copy, 3, rank), 2)
        cases.append(("newest data of rank %d" % rank, copy, 2))
    run = scene.expect_restarts(cases)
    scene.expect_named(run, 3, RANKS)
    named = run.text
    for rank in range(RANKS):
        # both ranks may refer to what one of them has stored: the pack is named
        expect("damaged on rank" in named and "/%08x: block" % rank in named,
               "the log does not say that the pack of rank %d has the damage:\n%s" % (rank, named))
    acts = []
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        copy = scene.copy(store)
        path = scene.pack(copy, 1, 1)
        change_bytes(path, 2, int(os.path.getsize(path) * share))
        acts += ["store:" + copy, "open:" + NAME, "restart:latest", "close"]
    run = scene.run(store, *acts)
    scene.expect_same(run)
    restarts = [line for line in run.lines[0] if line.startswith("restart")]
    expect(len(restarts) == 5 and all(line == "restart CORRUPT" or line.endswith("whole") for line in restarts),
           "damage in old data:\n" + run.story())
    return ("changed in the newest data: restored 2 on both ranks; in 5 places of data that later ones lean on: no wrong byte, "
            "CORRUPT on both ranks %d times" % restarts.count("restart CORRUPT"))


# What a choice needs beside it, so that it is allowed, or does anything.
WITH = {"beat_seconds=3600": "dead_seconds=86400,", "dead_seconds=2": "beat_seconds=1,", "zstd_level": "codec=zstd,",
        "part_size": "codec=none,", "direct": "codec=none,", "restart_window": "codec=none,", "grouping": "aggregate=2,codec=zstd,",
        "group_block": "aggregate=2,grouping=aware-block,codec=zstd,", "match": "aggregate=2,grouping=aware,codec=zstd,"}


@row
def F5(scene):
    """A documented setting (dCP_Mode=2) is chosen. FTI dies of SIGSEGV. Right: every value that `varve config --list` allows makes
    checkpoints that restart: all words but those of access, heap, encrypt, key, tiers, durable and parity that need something else, and
    both ends of all ranges; but a tracker that this kernel does not have is refused by name."""
    choices = []
    for name, bounds in scene.settings():
        if "|" in bounds:
            words = [word.replace(":n", ":2") for word in bounds.split("|")]
        else:
            words = bounds.replace(" or more", "").replace(", ", " to ").split(" to ")
        # access=read saves nothing; without `varve run` there is no heap to protect; without a key nothing is encrypted;
        # without further tiers only the first one can be asked for; parity is for storage of each node's own.
        alone = {"access": ("write",), "heap": ("auto", "off"), "encrypt": ("off",), "key": (), "durable": ("1",), "tiers": (),
                 "parity": ("off",)}
        choices += ["%s=%s" % (name, word) for word in words if word in alone.get(name, words)]
    refused = scene.run(scene.fresh(), "set:tracker=softdirty", "open:refused")
    if refused.lines[0][0] != "open OK":
        expect("softdirty does not work here" in refused.story(), "refused without a reason:\n" + refused.story())
        choices.remove("tracker=softdirty")
    write, read, must_write, must_read = [], [], [], []
    for number, choice in enumerate(choices):
        settings = "set:" + WITH.get(choice, WITH.get(choice.split("=")[0], "")) + choice
        write += [settings, "open:s%d" % number, "save:1-3", "close"]
        read += [settings, "open:s%d" % number, "restart:latest", "close"]
        must_write.append(["open OK"] + [line for v in (1, 2, 3) for line in ("begin %d" % v, "saved %d OK" % v)] + ["close OK"])
        must_read.append(["open OK", "restart OK 3 3 whole", "close OK"])
    store = scene.fresh()
    for acts, must in ((write, must_write), (read, must_read)):
        run = scene.run(store, *acts)
        scene.expect_same(run)
        for number, choice in enumerate(choices):
            at = sum(len(lines) for lines in must[:number])
            lines = run.lines[0][at:at + len(must[number])]
            expect(lines == must[number], "with %s:\n%s\n%s" % (choice, "\n".join(lines), run.text[-3000:]))
        expect(run.code == 0, "ended with %d:\n%s" % (run.code, run.text[-3000:]))
    scene.verify(store, 0)
    return "%d choices of %d settings: checkpoints made and restarted, on both ranks" % (len(choices), len(scene.settings()))


@row
def F6(scene):
    """Rank 1 is killed 20 or 100 ms into an incremental checkpoint 3. FTI reports success and gives rank 0 iteration 3 and rank 1
    iteration 2. Right: all ranks restore the same iteration."""
    return kill_at_times(scene, [20, 100], tries=4)


@row
def F7(scene):
    """The same with checkpoints in which everything changes. FTI is right here: both ranks at 2. So must we be."""
    return kill_at_times(scene, [20, 60], change=100, tries=3)


# ---- VELOC ----

@row
def V1(scene):
    """A name is protected twice. VELOC does it and reports failure. Right: success, and the new place is what is saved and restored."""
    store = scene.fresh()
    acts = ["open:" + NAME, "again", "save:1-2", "again", "more:1", "close", "open:" + NAME, "again", "restart:latest", "again",
            "restart:2", "close"]
    run = scene.run_whole(store, *acts)
    must = ["open OK", "again OK", "begin 1", "saved 1 OK", "begin 2", "saved 2 OK", "again OK", "begin 3", "saved 3 OK",
            "close OK", "open OK", "again OK", "restart OK 3 3 whole", "again OK", "restart OK 2 2 whole", "close OK"]
    expect(run.lines[0] == must, "protecting twice:\n" + run.story())
    return "protected again before and between checkpoints and restarts: 0 each time, the new place is saved and filled"


@row
def V2(scene):
    """1 byte of the stored data is changed. VELOC reports success and gives back wrong data. Right: noticed wherever it is, and 2 is
    restored on both ranks."""
    store = scene.save()
    cases = []
    for rank in range(RANKS):
        size = os.path.getsize(scene.pack(store, 3, rank))
        for offset in (9, 200, size // 3, size // 2, size * 2 // 3, size - 400, size - 17, size - 1):
            copy = scene.copy(store)
            change_bytes(scene.pack(copy, 3, rank), 1, offset)
            cases.append(("byte %d of rank %d" % (offset, rank), copy, 2))
    run = scene.expect_restarts(cases)
    scene.expect_named(run, 3, len(cases))
    return "one byte in %d places of rank 0's and rank 1's data: noticed each time, restored 2 on both ranks" % len(cases)


@row
def V3(scene):
    """The newest checkpoint is torn on rank 1 only. VELOC's ranks return different codes, and 2 is not offered. Right: the same code
    on both ranks, and 2 is restored."""
    store = scene.save()
    cut(scene.pack(store, 3, 1), 0.5)
    run = scene.expect_restart(store, 2)
    scene.expect_named(run, 3)
    expect("damaged on rank 1" in run.text, "the log does not name rank 1:\n" + run.text)
    return "torn on rank 1 only: the same code on both ranks, restored 2 on both; the log names 3 and rank 1"


@row
def V4(scene):
    """Rank 1 has no data of checkpoint 3: killed before it was in place, or removed afterwards. VELOC says 3 and fails everywhere.
    Right: 2 on both ranks."""
    crashed = scene.fresh()
    expect(scene.killed(crashed, "fault:1:store.pack.before_seal=kill:3") is not None, "nobody was killed")
    expect(1 not in scene.votes(crashed, 3), "rank 1 has data of checkpoint 3")
    removed = scene.save()
    os.unlink(scene.pack(removed, 3, 1))
    run = scene.expect_restarts([("killed before its data was in place", crashed, 2), ("removed", removed, 2)])
    scene.expect_named(run, 3)
    return "rank 1 without checkpoint 3 (killed in time; removed): restored 2 on both ranks"


@row
def V5(scene):
    """A torn copy lies beside the good one. VELOC takes the torn one and fails. Right: leftovers and torn attempts hide
    nothing: 3 on both ranks."""
    store = scene.save()
    cases = []

    def case(what, source, *to):
        copy = scene.copy(store)
        for path in to:
            torn_copy(source(copy), path(copy))
        cases.append((what, copy, 3))

    def pack(copy):
        return scene.pack(copy, 3, 1)

    case("a leftover in tmp", pack, lambda copy: os.path.join(copy, "tmp", os.path.basename(pack(copy))))
    case("a second attempt at 3", pack, *[lambda copy, rank=rank: os.path.join(scene.attempt(copy, 3, 1), "%08x" % rank)
                                          for rank in range(RANKS)])
    case("a torn copy object", pack, lambda copy: pack(copy) + ".copy")
    case("a part that no list names", pack, lambda copy: pack(copy) + ".00000000")
    case("a torn record of 4", lambda copy: scene.record(copy, 3), lambda copy: scene.record(copy, 4))
    case("a torn generation", pack, *[lambda copy, rank=rank: os.path.join(scene.attempt(copy, 9, 0, 2), "%08x" % rank)
                                      for rank in range(RANKS)])
    for torn in ([0], [1], [0, 1]):
        more = scene.save(4)
        os.unlink(scene.record(more, 4))
        os.unlink(os.path.join(scene.attempt(more, 4), "writers"))
        for rank in torn:
            cut(scene.pack(more, 4, rank), 0.5)
        cases.append(("data of 4 that was never committed, torn on %s" % torn, more, 3))
    scene.expect_restarts(cases)
    return "%d kinds of torn copies beside the good one: restored 3 on both ranks" % len(cases)


@row
def V6(scene):
    """As V2, where VELOC checks: it notices and does not fall back. Right: with 3 damaged on rank 1 and 2 on rank 0, both ranks fall
    back to 1; and the tool names both."""
    store = scene.save()
    change_bytes(scene.pack(store, 3, 1), 1)
    change_bytes(scene.pack(store, 2, 0), 1)
    text = scene.verify(store, 20)
    for version in (2, 3):
        expect("%016x" % version in text, "varve verify does not name %d:\n%s" % (version, text))
    run = scene.expect_restart(store, 1)
    scene.expect_named(run, 3)
    scene.expect_named(run, 2)
    return "3 damaged on rank 1 and 2 on rank 0: restored 1 on both ranks; the log and varve verify name 3 and 2"


@row
def V7(scene):
    """Rank 1 is killed 5 or 30 ms into checkpoint 3, the files survive. VELOC gives rank 0 iteration 3, fails on rank 1, and needs a
    hand to remove files. Right: the next start restores one iteration on both ranks without help."""
    return kill_at_times(scene, [5, 30], tries=3)


# ---- SCR ----

@row
def S1(scene):
    """2 bytes of a file are changed, and only the files are left (another folder, as on another day). SCR reports success with wrong data.
    Right: noticed, 2 on both ranks."""
    store = scene.save()
    cases = []
    for rank in range(RANKS):
        elsewhere = scene.copy(store)
        change_bytes(scene.pack(elsewhere, 3, rank), 2)
        cases.append(("2 bytes of rank %d" % rank, elsewhere, 2))
    shutil.rmtree(store)
    run = scene.expect_restarts(cases)
    scene.expect_named(run, 3, len(cases))
    return "2 bytes changed on either rank, store moved: noticed, restored 2 on both ranks"


@row
def S2(scene):
    """A file is truncated. SCR does not notice; the program must. Right: Varve notices, 2 on both ranks, wherever it is cut."""
    store = scene.save()
    cases = []
    for rank in range(RANKS):
        for size in (0, 50, 96, 0.5, -1):
            copy = scene.copy(store)
            cut(scene.pack(copy, 3, rank), size)
            cases.append(("data of rank %d cut to %s" % (rank, size), copy, 2))
    for what, path in (("writers list", os.path.join("{attempt}", "writers")), ("record", "{record}")):
        for size in (0, 0.5, -1):
            copy = scene.copy(store)
            cut(path.format(attempt=scene.attempt(copy, 3), record=scene.record(copy, 3)), size)
            cases.append(("%s cut to %s" % (what, size), copy, 2))
    run = scene.expect_restarts(cases)
    scene.expect_named(run, 3, len(cases))
    return "cut in %d ways: noticed each time, restored 2 on both ranks" % len(cases)


@row
def S3(scene):
    """A file is missing. SCR falls back to 2 by itself. So must we; and where nothing but the record is missing, 3 is complete."""
    store = scene.save()
    cases = []
    for rank in range(RANKS):
        copy = scene.copy(store)
        os.unlink(scene.pack(copy, 3, rank))
        cases.append(("data of rank %d" % rank, copy, 2))
    copy = scene.copy(store)
    os.unlink(os.path.join(scene.attempt(copy, 3), "writers"))
    cases.append(("writers list", copy, 2))
    copy = scene.copy(store)
    shutil.rmtree(os.path.dirname(scene.attempt(copy, 3)))
    cases.append(("all data of 3", copy, 2))
    run = scene.expect_restarts(cases)
    scene.expect_named(run, 3, len(cases))
    os.unlink(scene.record(store, 3))
    run = scene.expect_restart(store, 3)
    return "data of a rank, the writers list, or all data of 3 missing: restored 2 on both ranks; the record missing: 3, adopted"


@row
def S4(scene):
    """The index is torn to 0 bytes. SCR starts from nothing until an operator rebuilds it. Right: the catalogue, the store object, the
    heartbeat, the claim, or all of them torn: everything is found, and the newest is restored on both ranks, by itself."""
    store, last = scene.fresh(), 68  # the catalogue is written behind 66, before 67 begins
    expect(scene.killed(store, "size:64", "set:keep=all", "kill:0:%d:0" % last, version=last) is not None, "rank 0 was not killed")
    must = scene.newest_complete(store, last)
    files = {"catalogue": scene.key(store, "catalogue"), "store object": os.path.join(store, "varve"),
             "heartbeat": scene.key(store, "beat", "00000001"), "claim": scene.key(store, "claim", "00000001")}
    cases = []
    for what in list(files) + ["all of them"]:
        copy = scene.copy(store)
        for name in files if what == "all of them" else [what]:
            cut(files[name].replace(store, copy, 1), 0)
        expect(scene.listed(copy) == last - 1, "varve ls lists %d of %d" % (scene.listed(copy), last - 1))
        cases.append((what, copy, must))
    scene.expect_restarts(cases, ["size:64"], VARVE_BEAT_SECONDS="1", VARVE_DEAD_SECONDS="2")
    return ("catalogue, store object, heartbeat, claim, and all of them cut to 0 bytes after a crash: all %d checkpoints are listed, "
            "the newest is restored on both ranks" % (last - 1))


@row
def S5(scene):
    """Rank 1 is killed 10, 30 or 150 ms into checkpoint 3. SCR is right here: both ranks at 2. So must we be."""
    return kill_at_times(scene, [10, 30, 150], latency="6ms", tries=2)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", required=True)
    parser.add_argument("--varve", required=True)
    parser.add_argument("--kind", default="openmpi", choices=["openmpi", "mpich"])
    parser.add_argument("--seed", default=str(time.time_ns() % 1000000))
    parser.add_argument("--seconds", type=float, default=150, help="that one job may take")
    parser.add_argument("--keep", action="store_true", help="the files of rows that pass, too")
    parser.add_argument("rows", nargs="+")
    options = parser.parse_args()
    if options.rows == ["all"]:
        options.rows = list(ROWS)
    unknown = [name for name in options.rows if name not in ROWS]
    if unknown:
        parser.error("there is no row " + ", ".join(unknown))
    return options


def run_row(options, name):
    from scene import Scene
    folder = tempfile.mkdtemp(prefix="varve-field-%s-" % name)
    begun = time.monotonic()
    try:
        text = ROWS[name](Scene(options, name, folder))
    except (Failed, mpijob.TookTooLong) as failure:
        print("%s FAILED (--seed %s; files in %s): %s" % (name, options.seed, folder, failure), flush=True)
        return False
    print("%s passed: %s (%.1f s)" % (name, text, time.monotonic() - begun), flush=True)
    if not options.keep:
        shutil.rmtree(folder)
    return True


def main():
    options = read_options()
    mpijob.skip_without(options.kind)
    results = [run_row(options, name) for name in options.rows]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
