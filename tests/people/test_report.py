"""varve report tells what is in the logs: the numbers of its page, its JSON and its text are the sums of the lines, which are read here
from the objects themselves. A job that was killed has left a log; 10,000 checkpoints of 1,024 ranks make a small page; a page needs
nothing beside it, and no text in it overlaps (Browser: with chromium, at two widths, light and dark). varve top follows a job. VARVE
names the tool, COUNTER and HEAT example programs (HEAT may be empty), LONG the program that writes a long log. Exit code 77: something
was skipped, and the rest has passed."""
import glob
import html.parser
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

VARVE, COUNTER, LONG = os.environ["VARVE"], os.environ["COUNTER"], os.environ["LONG"]
HEAT = os.environ.get("HEAT")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HEAD, TAIL = 96, 24  # docs/format.md 4 and 5
OFTEN = {**os.environ, "VARVE_BEAT_SECONDS": "1", "LC_ALL": "C.UTF-8"}


def varve(*words, code=0, env=OFTEN):
    done = subprocess.run([VARVE, *words], capture_output=True, text=True, env=env)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def lines(*words):
    return [json.loads(line) for line in varve(*words, "--json").stdout.splitlines()]


def of(messages, kind):
    return [message for message in messages if message["message_type"] == kind]


def logs(store):
    """The lines of all logs, as they lie in the store."""
    found = []
    for path in sorted(glob.glob(f"{store}/n/*/log/*")):
        with open(path, "rb") as file:
            text = file.read()[HEAD:-TAIL].decode()
        assert text.endswith("\n")
        found.append([json.loads(line) for line in text.splitlines()])
    return found


def total(found, key, kind="checkpoint"):
    return sum(line.get(key, 0) for log in found for line in log if line["type"] == kind)


class Page(html.parser.HTMLParser):
    """The exact numbers by their id, the rows of the table of checkpoints, and everything that would need a network."""

    def __init__(self, path):
        super().__init__()
        self.values, self.rows, self.foreign, self.in_points = {}, [], [], False
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "data" and "id" in attrs:
            assert attrs["id"] not in self.values
            self.values[attrs["id"]] = float(attrs["value"])
        if tag == "table":
            self.in_points = attrs.get("id") == "points"
        if tag == "tr" and self.in_points:
            self.rows.append([])
        if tag == "data" and self.in_points:
            self.rows[-1].append(float(attrs["value"]))
        if tag in ("script", "link", "img", "iframe") or "src" in attrs or "href" in attrs:
            self.foreign.append((tag, attrs))


# Text that lies on other text, or is cut off where it cannot be scrolled to.
OVERLAPS = """
<script>addEventListener("load",()=>{const boxes=[],walk=document.createTreeWalker(document.body,NodeFilter.SHOW_TEXT);
for(let node;node=walk.nextNode();){if(!node.data.trim()||node.parentElement.closest("svg,script,style"))continue;
const range=document.createRange();range.selectNodeContents(node);
for(const box of range.getClientRects())if(box.width>1&&box.height>1)boxes.push([box,node.data.trim()]);}
let bad=[];const wide=document.documentElement.scrollWidth>innerWidth?["wider than the window"]:[];
for(let i=0;i<boxes.length;i++)for(let j=i+1;j<boxes.length;j++){const a=boxes[i][0],b=boxes[j][0];
if(a.left<b.right-1&&b.left<a.right-1&&a.top<b.bottom-2&&b.top<a.bottom-2)bad.push(boxes[i][1]+" / "+boxes[j][1]);}
const paper=getComputedStyle(document.body).backgroundColor;
parent.postMessage(JSON.stringify({texts:boxes.length,bad:bad.concat(wide),paper,width:innerWidth}),"*");});
</script>"""
# In a frame, since no window of chromium is as narrow as a telephone.
FRAME = """<!DOCTYPE html><meta charset="utf-8"><body><script>addEventListener("message",event=>{
document.body.dataset.found=event.data});</script><iframe src="inner.html" width="%d" height="20000" frameborder="0"></iframe></body>"""


def look_at(page, folder, width, dark):
    """What a browser makes of the page."""
    probe = os.path.join(folder, "probe.html")
    with open(os.path.join(folder, "inner.html"), "w", encoding="utf-8") as file:
        file.write(page.text.replace("</body>", OVERLAPS + "</body>"))
    with open(probe, "w", encoding="utf-8") as file:
        file.write(FRAME % width)
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width + 100},2000", "--dump-dom",
             f"--user-data-dir={folder}/chromium", "--virtual-time-budget=5000"]
    if dark:
        words.append("--blink-settings=preferredColorScheme=0")
    dom = subprocess.run(words + [f"file://{probe}"], capture_output=True, text=True, timeout=120).stdout
    found = re.search(r'data-found="([^"]*)"', dom)
    assert found, dom[:2000]
    return json.loads(found.group(1).replace("&quot;", '"').replace("&amp;", "&"))


class WithStore(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="report-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.store = f"{self.folder}/ck"
        self.page = f"{self.folder}/page.html"


@unittest.skipUnless(CHROMIUM, "there is no chromium")
class Browser(WithStore):
    def test_browser(self):
        self.assertEqual(subprocess.run([LONG, self.store]).returncode, 0)
        varve("report", self.store, "long run", "-o", self.page)
        page = Page(self.page)
        papers = set()
        for width in (420, 1200):
            for dark in (False, True):
                found = look_at(page, self.folder, width, dark)
                self.assertEqual(found["width"], width)
                self.assertEqual(found["bad"], [], (width, dark))
                self.assertGreater(found["texts"], 300)
                papers.add((dark, found["paper"]))
        self.assertEqual(len(papers), 2)


class Report(WithStore):
    def count(self, steps, **more):
        job = subprocess.Popen([COUNTER, self.store, str(steps)], env=OFTEN, stdout=subprocess.DEVNULL, **more)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def compare(self, name):
        """Page, JSON and text against the lines of the logs."""
        found = logs(self.store)
        varve("report", self.store, name, "-o", self.page)
        page, told = Page(self.page), lines("report", self.store, name)
        summary = of(told, "summary")[0]
        self.assertEqual(page.foreign, [])
        self.assertLess(len(page.text), 2 << 20)
        self.assertEqual(page.values["runs"], len(found))
        self.assertEqual(page.values["checkpoints"], total(found, "count"))
        self.assertEqual(page.values["failed"], total(found, "failed"))
        self.assertEqual(page.values["restarts"], total(found, "restarts", "job"))
        self.assertEqual(summary["checkpoints"], total(found, "count"))
        for key in ("bytes_protected", "bytes_changed", "bytes_stored", "bytes_metadata", "bytes_rewritten"):
            self.assertEqual(page.values[key], total(found, key), key)
            self.assertEqual(summary[key], total(found, key), key)
        for key in ("seconds_blocked", "seconds_durable"):
            self.assertAlmostEqual(page.values[key], total(found, key), places=4, msg=key)
            self.assertAlmostEqual(summary[key], total(found, key), delta=1e-5 * total(found, key) + 1e-9, msg=key)
        self.assertEqual(page.values["freed_bytes"], total(found, "freed_bytes", "job"))
        points = [line for log in found for line in log if line["type"] == "checkpoint"]
        self.assertEqual(len(of(told, "checkpoint")), len(points))
        rows = page.rows[1:]
        self.assertEqual(len(rows), min(40, len(points)))
        for row, point in zip(rows, points[-40:]):
            if point["count"]:
                self.assertEqual(row[:3], [point[key] // point["count"]
                                           for key in ("bytes_protected", "bytes_changed", "bytes_stored")])
        text = varve("report", self.store, name).stdout
        count, ranks = total(found, "count"), {line["ranks"] for log in found for line in log if "ranks" in line}
        by = f"{min(ranks)} to {max(ranks)}" if len(ranks) > 1 else f"{min(ranks)}"
        self.assertRegex(text, rf"^{name}: {count} checkpoints? by {by} ranks? in {len(found)} runs?, ")
        return page, told, text

    def test_long(self):
        self.assertEqual(subprocess.run([LONG, self.store]).returncode, 0)
        page, told, text = self.compare("long run")
        self.assertEqual(page.values["checkpoints"], 9990)
        self.assertEqual(page.values["ranks"], 1024)
        found = [line for log in logs(self.store) for line in log if line["type"] == "checkpoint"]
        self.assertAlmostEqual(page.values["took_most"], max(line.get("took_most", 0) for line in found), places=5)
        self.assertEqual(page.values["written_most"], max(line.get("written_most", 0) for line in found))
        self.assertEqual(page.values["written_least"], min(line["written_least"] for line in found if line["count"]))
        self.assertIn("1024 ranks", text)
        self.assertIn("the disk is on fire", text)
        self.assertNotIn("\x1b", text)

    def test_hostile(self):
        """Nothing in a log becomes part of a page, or commands a terminal; its numbers stay numbers."""
        self.assertEqual(subprocess.run([LONG, self.store, "hostile"]).returncode, 0)
        varve("report", self.store, "long run", "-o", self.page)
        page, told, text = Page(self.page), lines("report", self.store, "long run"), varve("report", self.store, "long run").stdout
        for name in ("program", "host", "what", "text", "why", "codec"):
            self.assertIn(f"&#60;b&#62;&#38;&#34;\\x1b[31m\\xc2\\x9b\\xe2\\x80\\xae{name}", page.text)
            self.assertIn(f'<b>&"\\x1b[31m\\xc2\\x9b\\xe2\\x80\\xae{name}', text)
        for out in (page.text, text, varve("top", self.store, "long run").stdout):
            for control in "\x1b\x9b\u202e":
                self.assertNotIn(control, out)
        self.assertNotIn('<b>&', page.text)
        self.assertEqual(of(told, "event")[0]["text"], '<b>&"\x1b[31m\x9b\u202etext')
        self.assertEqual(of(told, "run")[0]["host"], '<b>&"\x1b[31m\x9b\u202ehost')
        self.assertEqual(page.values["written_most"], 1e18)
        self.assertEqual(page.values["bytes_protected"], float(2 ** 64 - 1))
        self.assertEqual(page.rows[1][0], float(2 ** 64 - 1))
        self.assertNotIn("inf", re.sub(r"<style>.*?</style>", "", page.text, flags=re.S))

    def test_runs(self):
        """A life that ends, one that is killed, and the one after it."""
        self.assertEqual(self.count(1500).wait(), 0)
        killed = self.count(10 ** 9)
        deadline = time.time() + 60
        while len(logs(self.store)) < 2 and time.time() < deadline:
            time.sleep(0.1)
        killed.kill()
        killed.wait()
        self.assertEqual(len(logs(self.store)), 2)
        self.before_its_log()
        last = max(info["version"] for info in of(lines("ls", self.store), "checkpoint"))
        self.assertEqual(self.count(last + 500).wait(), 0)
        page, told, text = self.compare("counter")
        runs = of(told, "run")
        self.assertEqual([run["end"] for run in runs], ["closed", "died: it was not closed", "closed"])
        self.assertIn("died: it was not closed", text)
        event = of(told, "event")[-1]
        self.assertEqual(event["what"], "restarted")
        self.assertIn(event["version"], (last, last + 100))  # one that was whole, and not yet listed, is adopted
        self.assertIn("died", event["text"])
        varve("verify", self.store)
        self.assertIn("is there already", varve("report", self.store, "counter", "-o", self.page, code=1).stderr)

    def before_its_log(self):
        """A session that has written no log yet does not bring the one before it back to life."""
        job = subprocess.Popen([COUNTER, self.store, str(10 ** 9)], env={**OFTEN, "VARVE_BEAT_SECONDS": "15"}, stdout=subprocess.DEVNULL)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        deadline = time.time() + 10
        while "running" not in (top := varve("top", self.store, "counter").stdout) and time.time() < deadline:
            time.sleep(0.1)
        runs = of(lines("report", self.store, "counter"), "run")
        self.assertIn("counter: running", top)
        self.assertNotIn("in this run", top)
        self.assertEqual([(run["end"], run["is_running"]) for run in runs], [("closed", False), ("died: it was not closed", False)])
        job.kill()
        job.wait()

    def test_nothing(self):
        self.assertEqual(self.count(200).wait(), 0)
        done = varve("report", self.store, "nobody", code=1)
        self.assertIn("no session has left a log", done.stderr)
        for info in of(lines("ls", self.store), "checkpoint"):
            varve("forget", self.store, f"counter@{info['version']}:{info['generation']}")
        varve("prune", self.store)
        self.assertEqual(logs(self.store), [])

    @unittest.skipUnless(HEAT, "there is no group by environment")
    def test_ranks(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        words = [HEAT, "--rows", "256", "--columns", "256", "--steps", "60", "--every", "10", self.store]
        group = {**OFTEN, "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        ranks = [subprocess.Popen(words, env={**group, "RANK": str(rank)}, stdout=subprocess.DEVNULL)
                 for rank in range(3)]
        self.assertEqual([rank.wait() for rank in ranks], [0, 0, 0])
        name = of(lines("ls", self.store), "checkpoint")[0]["name"]
        page, told, text = self.compare(name)
        self.assertEqual(page.values["ranks"], 3)
        found = [line for line in logs(self.store)[0] if line["type"] == "checkpoint"]
        self.assertEqual(len(found), 6)
        newest = of(lines("ls", self.store), "checkpoint")[0]
        self.assertEqual(found[-1]["bytes_protected"], newest["bytes_protected"])
        self.assertEqual(found[-1]["bytes_stored"], newest["bytes_stored"])
        self.assertEqual(found[-1]["bytes_metadata"], newest["bytes_metadata"])
        for line in found:
            self.assertLessEqual(line["took_least"], line["took_most"])
            self.assertLessEqual(line["written_least"], line["written_median"])
            self.assertLessEqual(line["written_median"], line["written_most"])
            self.assertLess(line["took_rank"], 3)
        self.assertIn("balance over 3 ranks", text)

    def test_top(self):
        job = self.count(10 ** 9)
        deadline = time.time() + 60
        while not logs(self.store) and time.time() < deadline:
            time.sleep(0.1)
        top = subprocess.Popen([VARVE, "top", self.store, "counter", "--json"], env=OFTEN, stdout=subprocess.PIPE, text=True)
        self.addCleanup(top.stdout.close)
        self.addCleanup(top.kill)
        first = json.loads(top.stdout.readline())
        second = json.loads(top.stdout.readline())
        self.assertEqual((first["state"], first["is_open"]), ("running", True))
        self.assertGreater(second["version"], first["version"])
        self.assertGreaterEqual(second["checkpoints"], first["checkpoints"])
        once = varve("top", self.store, "counter").stdout
        self.assertIn("counter: running", once)
        self.assertIn("newest checkpoint: version", once)
        self.keys(b"q")
        self.keys(b"\x03")
        job.kill()
        job.wait()
        rest = [json.loads(line) for line in top.stdout.read().splitlines()]
        self.assertEqual(top.wait(), 0)
        self.assertFalse(rest[-1]["is_open"])
        self.assertEqual({line["message_type"] for line in rest}, {"top"})

    def keys(self, key):
        """In a terminal a key ends it, and the terminal is as it was."""
        main, side = pty.openpty()
        before = subprocess.run(["stty", "-g"], stdin=side, capture_output=True).stdout
        top = subprocess.Popen([VARVE, "top", self.store, "counter"], env=OFTEN, stdin=side, stdout=side)
        seen = b""
        while b"durable" not in seen:
            seen += os.read(main, 4096)
        os.write(main, key)
        self.assertEqual(top.wait(timeout=30), 0)
        self.assertEqual(subprocess.run(["stty", "-g"], stdin=side, capture_output=True).stdout, before)
        os.close(main)
        os.close(side)


def main():
    result = unittest.main(verbosity=2, exit=False).result
    for test, why in result.skipped:
        print(f"skipped: {test}: {why}")
    return 1 if not result.wasSuccessful() or result.testsRun == 0 else 77 if result.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
