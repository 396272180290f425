"""The faults that VELOC showed, done to programs that use VELOC's calls on Varve: rows V1 to V7 of ../field/field.py.

    field.py --job FIELD-JOB --varve VARVE [--kind openmpi|mpich] [--seed N] ROW"""
import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "field"))
import mpijob  # noqa: E402
import scene  # noqa: E402

spec = importlib.util.spec_from_file_location("field_rows", os.path.join(HERE, "..", "field", "field.py"))
rows = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rows)


class VelocScene(scene.Scene):
    def fresh(self, word="store"):
        """The layer has its store in PERSISTENT/varve."""
        path = super().fresh(word)
        if word not in ("store", "copy"):
            return path
        os.makedirs(path)
        return os.path.join(path, "varve")

    def run(self, store, *acts, parameters="", **environment):
        return super().run(store, *acts, **environment)


def V7(here):
    """There is no slow storage here, so there is more to store."""
    return rows.kill_at_times(here, [5, 30], size=49152, change=60, tries=3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", required=True)
    parser.add_argument("--varve", required=True)
    parser.add_argument("--kind", default="openmpi")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--seed", default=str(time.time_ns() % 1000000))
    parser.add_argument("row")
    options = parser.parse_args()
    mpijob.skip_without(options.kind)
    folder = tempfile.mkdtemp(prefix="varve-veloc-field-")
    try:
        play = V7 if options.row == "V7" else rows.ROWS[options.row]
        print("%s: %s (seed %s)" % (options.row, play(VelocScene(options, options.row, folder)), options.seed))
    except (scene.Failed, mpijob.TookTooLong) as failure:
        print("%s: FAILED (files in %s, seed %s): %s" % (options.row, folder, options.seed, failure))
        return 1
    shutil.rmtree(folder)
    return 0


sys.exit(main())
