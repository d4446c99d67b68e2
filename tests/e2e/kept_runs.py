"""A network is trained again and again in one process, and every run keeps what it allocated. With three GPU sizes
and five batch sizes, the program fails in the second run or only in the hundredth. All of these are leaks. If the
first run does not fit, it is not a leak; if nothing is kept, nothing is reported."""
from harness import CNN, Card, Workplace, expect, main, new_folder, run_observed

CARDS = ("4GiB", "8GiB", "16GiB")
BATCHES = (256, 1024, 4096, 8192, 16384)


def judged(place, card, *options):
    folder = new_folder(place, "-".join(map(str, (card, *options))))
    run = run_observed([CNN, *map(str, options), "--truth", "{truth}"], Card(card), folder)
    return run.status, run.verdict()


def one(place, card, batch):
    what = f"{card}, batch {batch}"
    status, verdict = judged(place, card, "--runs", 3, "--batch", batch)
    fits = status == 0
    if fits:
        expect(verdict["status"] == "clean", f"{what}, nothing kept: {verdict['headline']}")
    status, verdict = judged(place, card, "--runs", 200, "--batch", batch, "--keep-runs")
    expect(status != 0, f"{what}: 200 runs that keep everything fitted")
    said = f"{verdict['cause']} ({verdict['certainty']}): {verdict['headline']}"
    print(f"{what}: {said}")
    wanted = "gpu-oom-leak" if fits else "gpu-oom-capacity"
    expect(verdict["cause"] == wanted, f"{what}: expected {wanted}, found {said}")
    if fits:
        expect(not any("a leak" in text for text in verdict["ruled_out"]), f"{what}: a leak is ruled out")
    return fits


def all_of_it():
    with Workplace() as place:
        fitting = sum(one(place, card, batch) for card in CARDS for batch in BATCHES)
    expect(fitting == 12, f"{fitting} of 15 settings fit without what earlier runs kept")


main(all_of_it)
