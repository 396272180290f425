"""record.py RESULTS DOCUMENT: what .ci/long has done, as the rows of the table in DOCUMENT that begins with "| stage | slices |".

A row has a stage at the commit it was last run on: of each slice the last result counts. Rows of other stages stay."""

import sys

HEAD = "| stage | slices | commit | date | points | seconds | outcome |"


class Stage:
    def __init__(self, commit, of):
        self.commit, self.of, self.slices = commit, of, {}

    def row(self, name):
        done = self.slices.values()
        failed = ["%s of slice %d" % (outcome, number) for number, (_, _, _, outcome) in sorted(self.slices.items())
                  if outcome.startswith("FAILED")]
        others = sorted({outcome for _, _, _, outcome in done if not outcome.startswith("FAILED")})
        days = sorted({date for date, _, _, _ in done})
        cells = [name, "all %d" % self.of if len(done) == self.of else "%d of %d" % (len(done), self.of), "`%s`" % self.commit,
                 days[-1], "{:,}".format(sum(points for _, points, _, _ in done)),
                 "{:,}".format(sum(seconds for _, _, seconds, _ in done)), "; ".join(failed or others).replace("|", "/")]
        return "| %s |" % " | ".join(cells)


def read(path):
    stages = {}
    with open(path) as file:
        for line in file:
            name, slice_, commit, date, points, seconds, outcome = line.rstrip("\n").split("\t")
            number, of = map(int, slice_.split("/"))
            stage = stages.get(name)
            if not stage or (stage.commit, stage.of) != (commit, of):
                stage = stages[name] = Stage(commit, of)
            stage.slices[number] = (date, int(points), int(seconds), outcome)
    return {name: stage.row(name) for name, stage in stages.items()}


def main():
    rows = read(sys.argv[1])
    with open(sys.argv[2]) as file:
        lines = file.read().split("\n")
    begin = lines.index(HEAD) + 2
    end = begin
    while lines[end].startswith("|"):
        name = lines[end].split("|")[1].strip()
        lines[end] = rows.pop(name, lines[end])
        end += 1
    lines[end:end] = rows.values()
    with open(sys.argv[2], "w") as file:
        file.write("\n".join(lines))


if __name__ == "__main__":
    main()
