"""gpuwhy is preloaded into every process of a job: 1,000 starts of small tools print the same as without it.

The ratio of the times is printed but not checked, because it also depends on the machine. GPUWHY_E2E_STARTS sets the
count.
"""
import os

from harness import Card, Workplace, expect, expect_same, main, new_folder, run_observed, run_plain

STARTS = int(os.environ.get("GPUWHY_E2E_STARTS", "1000"))

# Ten starts per round. The sums, sorts and errors must be the same, on both outputs.
ROUND = r"""
printf 'c\nb\na\n' | sort
seq 1 20 | grep 7
echo 'some words' | sed 's/some/other/'
expr 6 '*' 7
printf 'x%.0s' 1 2 3 | wc -c
ls /proc/self/status
cat /nowhere/at/all
true
"""
SCRIPT = f'i=0; while [ $i -lt {max(1, STARTS // 10)} ]; do i=$((i+1)); {{ {ROUND} }}; done 2>&1'


def test():
    with Workplace() as place:
        seen = run_observed(["/bin/sh", "-c", "grep libcuda.so.1 /proc/self/maps"], Card(), new_folder(place, "seen"))
        expect(seen.status == 0, "gpuwhy is not preloaded into small tools at all: there is nothing to compare")
        argv = ["/bin/sh", "-c", SCRIPT]
        plain = run_plain(argv, Card(), new_folder(place, "plain"))
        observed = run_observed(argv, Card(), new_folder(place, "observed"))
        expect_same(plain, observed)
        expect(plain.stdout.count(b"42") >= STARTS // 10, "the tools did not run")
        verdict = observed.verdict()
        expect(verdict["status"] != "fault", f"a fault is seen in small tools: {verdict['headline']}")
        print(f"{STARTS} starts: {plain.seconds:.2f} s without, {observed.seconds:.2f} s with "
              f"(x {observed.seconds / plain.seconds:.2f})")


if __name__ == "__main__":
    main(test)
