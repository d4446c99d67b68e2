"""gpuwhy diff and history, and the last good run as evidence: runs of one program that are equal or different, and
input that is not a recording."""
import json
import os
import sys

from harness import (CNN, Card, base_environment, behind_sanitizer, by_name, expect, gpuwhy, main, new_folder, run_cases,
                     run_observed)

SMALL = ["--runs", "1", "--iterations", "3", "--batch", "64"]


def recorded(place, name, argv, card, **environment):
    run = run_observed(argv, card, new_folder(place, name), ["--quiet"], variables=environment)
    expect(run.recording.exists(), f"no recording: {run.stderr.decode(errors='replace')}")
    return run.recording


def diff(good, bad, wanted):
    status, out, err = gpuwhy("diff", "--json", good, bad)
    expect(status == wanted, f"exit {status}, not {wanted}: {out}{err}")
    return json.loads(out)


def found(result, area, name):
    rows = [d for d in result["differences"] if d["area"] == area and d["name"].startswith(name)]
    expect(rows, f"no difference {area}: {name} in {[(d['area'], d['name']) for d in result['differences']]}")
    return rows[0]


def equal_runs(place):
    good, bad = (recorded(place, f"equal-{i}", [CNN, *SMALL], Card("4GiB")) for i in range(2))
    result = diff(good, bad, 1)  # the runs used different folders
    expect([d["name"] for d in result["differences"] if d["matters"]] == ["folder"], result["differences"])
    expect(result["parting"]["known"] and not result["parting"]["parted"], result["parting"])
    expect(result["parting"]["same_calls"] > 100, result["parting"])
    status, out, _ = gpuwhy("diff", good, good)
    expect(status == 0 and "nothing that matters" in out and "nowhere: the same" in out, f"exit {status}: {out}")


def another_batch(place):
    good = recorded(place, "batch-64", [CNN, *SMALL], Card("4GiB"))
    bad = recorded(place, "batch-128", [CNN, *SMALL[:-1], "128"], Card("4GiB"))
    result = diff(good, bad, 1)
    for name in ("peak on GPU 0", "largest block"):
        row = found(result, "memory", name)
        expect(1.5 < row["bad"]["value"] / row["good"]["value"] < 2.2, row)
    found(result, "command", "line")
    parting = result["parting"]
    expect(parting["parted"] and parting["main"] and parting["bad"]["bytes"] == 2 * parting["good"]["bytes"], parting)
    expect("cnn.c:" in parting["bad"]["place"], parting)
    status, out, _ = gpuwhy("diff", good, bad)
    expect(status == 1 and len(out.splitlines()) < 50 and "Diverges after" in out, out)


def fault_and_twin(place):
    """The same leak on a GPU with enough memory and on one without."""
    leak = [CNN, "--runs", "2", "--batch", "1024", "--keep-runs"]
    good = recorded(place, "room", leak, Card("16GiB"))
    bad = recorded(place, "no-room", leak, Card("1GiB"))
    result = diff(good, bad, 1)
    expect(found(result, "card", "GPU 0 ")["matters"], result["differences"])
    expect(found(result, "end", "exit")["bad"]["text"] == "exited 1", result["differences"])
    failed = found(result, "end", "first failed call")
    expect(failed["good"] is None and "OUT_OF_MEMORY" in failed["bad"]["text"], failed)
    parting = result["parting"]
    expect(parting["parted"] and parting["bad"]["result"] == 2 and parting["good"]["result"] == 0, parting)


def environment_and_card(place):
    good = recorded(place, "plain", [CNN, *SMALL], Card("4GiB"))
    bad = recorded(place, "blocking", [CNN, *SMALL], Card("4GiB", name="a100-40gb"), CUDA_LAUNCH_BLOCKING="1",
                   SLURM_JOB_ID="9")
    result = diff(good, bad, 1)
    row = found(result, "environment", "CUDA_LAUNCH_BLOCKING")
    expect(row["matters"] and row["good"] is None and row["bad"]["text"] == "1", row)
    expect(not found(result, "environment", "SLURM_JOB_ID")["matters"], result["differences"])
    found(result, "card", "GPU 0")


def bad_input(place):
    good = recorded(place, "whole", [CNN, *SMALL], Card("4GiB"))
    cut, damaged = place / "cut.gpuwhy", place / "damaged.gpuwhy"
    content = good.read_bytes()
    cut.write_bytes(content[:len(content) // 2])
    damaged.write_bytes(content[:600] + bytes([content[600] ^ 255]) + content[601:])
    for path in (cut, damaged):
        status, out, err = gpuwhy("diff", good, path)
        expect(status in (1, 2) and out + err, f"exit {status}: {out}{err}")
    status, out, err = gpuwhy("diff", good, damaged)
    expect(status == 2 and "damaged.gpuwhy" in err and (not out or "unknown: " in out), f"exit {status}: {out}{err}")
    for words in ([], [good], [good, good, good], [good, place / "none"], [place / "none", good], [good, sys.executable],
                  [good, place], ["--nonsense", good, good]):
        status, out, err = gpuwhy("diff", *words)
        expect(status == 2 and out == "" and len(err.splitlines()) == 1, f"exit {status} of {words}: {out}{err}")


# ---- the last good run, and several attempts ---------------------------------------------------------------------------

LEAK = [CNN, "--runs", "2", "--batch", "1024", "--keep-runs"]
LAST = "last good run"


def attempt(folder, memory, options=(), **environment):
    """Run a command in a folder on a GPU of this size, and return the verdict."""
    out = folder / "verdict.json"
    status, _, err = gpuwhy("run", "--gpu", f"virtual:h200,memory={memory}", "--json", out, *options, "--",
                            *behind_sanitizer(LEAK), folder=folder,
                            environment={**base_environment(folder), **environment})
    expect(status in (0, 1), f"exit {status}: {err}")
    return json.loads(out.read_text())


def said(verdict):
    return [e["text"] for e in verdict["evidence"] if e["source"] == LAST]


def explained(folder, recording, *options):
    status, out, err = gpuwhy("explain", "--json", *options, recording, folder=folder / "work",
                              environment=base_environment(folder))
    expect(status == 0, f"exit {status}: {err}")
    return json.loads(out)


def last_good_run(place):
    folder = new_folder(place, "last-good")
    expect(not said(attempt(folder, "1GiB")), "a good run before the first one?")
    expect(not said(attempt(folder, "16GiB")), "a clean run was compared")
    verdict = attempt(folder, "1GiB", CUDA_LAUNCH_BLOCKING="1")
    lines = said(verdict)
    for wanted in ("GPU 0 memory was 16.00 GiB; here it is 1.00 GiB",
                   "the variable CUDA_LAUNCH_BLOCKING was absent; here it is 1"):
        expect(any(wanted in line for line in lines), f"not said: {wanted}: {lines}")
    bad = max((folder / "state" / "gpuwhy").glob("*.gpuwhy"), key=lambda path: path.stat().st_mtime)
    expect(said(explained(folder, bad)) == lines, f"explain says {said(explained(folder, bad))}")
    expect(not said(explained(folder, bad, "--no-history")), "explain --no-history compares")
    expect(not said(explained(new_folder(place, "elsewhere"), bad)), "compared with a history that does not know the run")
    alone = attempt(folder, "1GiB", ["--no-history"], CUDA_LAUNCH_BLOCKING="1")
    expect(not said(alone), said(alone))
    for key in ("status", "cause", "certainty", "headline"):
        expect(alone[key] == verdict[key], f"the comparison changed {key}: {alone[key]}, {verdict[key]}")
    for recording in (folder / "state" / "gpuwhy").glob("*.gpuwhy"):
        recording.unlink()
    gone = attempt(folder, "1GiB")
    expect(not said(gone), f"compared with what is gone: {said(gone)}")


def history(place):
    folder = new_folder(place, "history")
    status, out, err = gpuwhy("history", folder=folder)
    expect(status == 0 and "no runs recorded yet" in out, f"exit {status}: {out}{err}")
    for memory in ("16GiB", "1GiB", "16GiB", "16GiB", "1GiB", "16GiB", "16GiB", "1GiB", "16GiB", "16GiB"):
        attempt(folder, memory)
    attempt(folder, "1GiB", ["--no-history"])
    status, out, err = gpuwhy("history", folder=folder)
    rows = [line for line in out.splitlines() if line.startswith("@")]
    expect(status == 0 and len(rows) == 10 and sum("gpu-oom" in r for r in rows) == 3, f"exit {status}: {out}{err}")
    status, out, err = gpuwhy("history", "cnn", "--runs", folder=folder)
    expect("3 of 10 runs failed" in out and "GPU 0 memory: at most 1.00 GiB; good runs: at least 16.00 GiB" in out,
           f"exit {status}: {out}{err}")
    expect("may be chance" not in out, out)
    page = json.loads(gpuwhy("history", "--json", "cnn", folder=folder)[1])
    attempts = page["attempts"]
    expect(page["kind"] == "history" and len(page["runs"]) == 10 and sum(r["good"] for r in page["runs"]) == 7, page)
    expect(all(os.path.exists(r["recording"]) and r["folder"] == str(folder.resolve()) for r in page["runs"]), page)
    expect(attempts["failed"] == 3 and attempts["good"] == 7 and attempts["compared"] == {"good": 7, "failed": 3} and
           not attempts["may_be_chance"] and any(row["name"] == "GPU 0 memory" for row in attempts["in_common"]), attempts)
    page = json.loads(gpuwhy("history", "--json", "no such words", folder=folder)[1])
    expect(page["runs"] == [] and page["attempts"] is None, page)
    status, out, err = gpuwhy("history", "no such words", folder=folder)
    expect(status == 0 and "no runs of this command" in out, f"exit {status}: {out}{err}")
    few = new_folder(place, "few")
    for memory in ("16GiB", "1GiB"):
        attempt(few, memory)
    status, out, err = gpuwhy("history", "cnn", folder=few)
    expect("1 of 2 runs failed" in out and "this may be chance" in out, f"exit {status}: {out}{err}")


CASES = by_name(equal_runs, another_batch, fault_and_twin, environment_and_card, bad_input, last_good_run, history)


if __name__ == "__main__":
    main(lambda: run_cases(CASES))
