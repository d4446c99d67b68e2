"""What holds for every run under gpuwhy, whatever the program does. Each scenario of scenarios.py checks it and leaves
a row; this script prints the rows as a table.

    invariants.py FOLDER        the rows of all scenarios; exit 1 if one is missing

The columns:
    status     the command ends as it does without gpuwhy
    output     stdout, files and stderr lines are those of the run without gpuwhy
    no crash   gpuwhy itself ended normally, and no sanitizer reported anything
    no claim   nothing is established but the cause that the scenario is about
    counted    each event that was counted as written is in the recording, and each lost one is counted
    less       with less evidence, no cause is more certain and nothing more is ruled out (src/judge/less_test.c)
    coverage   the verdict names every process that the recording has, and says what was not observed
    schema     the verdict is valid by its schema: checked at the end, because loading the checker takes long
"""
import collections
import json
import pathlib
import subprocess
import sys

from harness import BUILD, SANITIZE, Failure, checked, expect, gpuwhy

MARKS = {None: "-", "": "?"}
COLUMNS = ("status", "output", "no crash", "no claim", "counted", "less", "coverage", "schema")


def counted(items):
    """True if no event that was counted as written is missing, and every lost event is counted."""
    events, written, lost, said = (collections.Counter() for _ in range(4))
    last = {}
    for item in items:
        if item["item"] == "event":
            events[item["pid"]] += 1
        elif item["item"] == "counters":
            last[item["pid"], item["tid"]] = item["counters"]
        elif item["item"] == "lost":
            said[item["pid"]] = item["events"]
    for (pid, _), counters in last.items():
        written[pid] += counters["RARE"]
        lost[pid] += counters["LOST"]
    missing = {pid: written[pid] - events[pid] for pid in written if events[pid] < written[pid]}
    unsaid = {pid: lost[pid] - said[pid] for pid in lost if lost[pid] > said[pid]}
    return not missing and not unsaid, f"events missing: {missing}, lost but not told: {unsaid}"


def covered(items, verdict):
    recorded = {item["pid"] for item in items if item["item"] == "process"}
    said = verdict["coverage"]["processes"]
    hidden = [item for item in items if item["item"] == "supervisor" and item["key"].startswith("unobserved.")]
    good = said <= len(recorded) and (said > 0 or not recorded or verdict["status"] != "clean" or not hidden)
    return good and len(verdict["coverage"]["unobserved"]) >= len(hidden), \
        f"{said} of {len(recorded)} processes, {len(hidden)} facts about what was not observed"


def raised(recording):
    """Return what the verdict claims with less evidence but not with all, as text."""
    done = subprocess.run([str(BUILD / "src" / "judge" / "verdict_less_test"), "--few", str(recording)],
                          capture_output=True, text=True, timeout=240, check=False)
    return None if done.returncode == 0 else done.stdout + done.stderr


def check(plain, observed, verdict, cause, is_same):
    """Return a dictionary of the columns: None, or what is wrong; "": not checked."""
    good_count, count_text = good_coverage, coverage_text = False, ""
    less = ""
    if not SANITIZE:  # under a sanitizer, the export of a long recording takes minutes
        status, out, err = gpuwhy("export", observed.recording, "--to", "json", folder=observed.folder)
        expect(status == 0, f"export: {err}")
        items = json.loads(out)["items"]
        good_count, count_text = counted(items)
        good_coverage, coverage_text = covered(items, verdict)
        less = raised(observed.recording)
    noise = observed.stderr.decode(errors="replace")
    own = [w for w in ("AddressSanitizer", "ThreadSanitizer", "runtime error:", "LeakSanitizer") if w in noise]
    claims = [a["cause"] for a in verdict["alternatives"] if a["certainty"] == "established"]
    if verdict["status"] == "fault" and verdict["certainty"] == "established" and verdict["cause"] != cause:
        claims.append(verdict["cause"])
    # With a limit on memory the program is meant to see another card than without gpuwhy.
    return {"status": None if not is_same or plain.status == observed.status else f"{observed.status}, not {plain.status}",
            "output": None if not is_same or plain.stdout == observed.stdout else "stdout differs",
            "no crash": None if not own or SANITIZE and own[0] in plain.stderr.decode(errors="replace") else str(own),
            "no claim": f"established: {claims}" if claims else None,
            "counted": None if good_count else count_text,
            "less": less,
            "coverage": None if good_coverage else coverage_text,
            "schema": ""}


def invalid(verdict):
    """Return what is wrong with a verdict by its schema, or None."""
    try:
        checked(verdict)
    except Failure as failure:
        return str(failure)
    return None


def leave(folder, name, row, verdict):
    """Keep the row of a scenario for the table, and fail if something in it is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"row": row, "verdict": verdict}))
    wrong = [f"{column}: {said}" for column, said in row.items() if said]
    expect(not wrong, "; ".join(wrong))


def main(folder):
    import scenarios
    print(f"{'':34}" + "  ".join(COLUMNS))
    missing = wrong = 0
    for name in scenarios.names(False):
        path = folder / f"{name}.json"
        if not path.exists():
            print(f"{name:34}not run")
            missing += 1
            continue
        left = json.loads(path.read_text())
        row = {**left["row"], "schema": invalid(left["verdict"])}
        print(f"{name:34}" + "  ".join(f"{MARKS.get(row[c], 'WRONG'):{len(c)}}" for c in COLUMNS))
        for said in filter(None, row.values()):
            print(f"{name}: {said}")
        wrong += any(row.values())
    print(f"- is right, ? was not checked in this build; {missing} scenarios did not run here, {wrong} are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])) if len(sys.argv) == 2 else __doc__)
