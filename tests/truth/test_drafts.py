#!/usr/bin/env python3
"""Test the generator: the arithmetic on programs small enough to add up by hand, drafts that are reproducible, and
every family can be drawn."""
import random
import sys

import families
import plans
import truth
from plans import MIB, PAGE, Node, alloc, loop


def outcome(nodes, usable, version=False):
    return plans.holds(plans.resolve(nodes, version), usable, 10000)


def test_a_leak_dies_when_the_card_is_full():
    nodes = [loop(100, [alloc(0, 0, "plain", 100 * MIB), plans.only_repaired(Node("freeall", 0))])]
    nodes[0].args = (100, "main")
    faulty = outcome(nodes, 1000 * MIB)
    assert faulty.end == "oom" and faulty.detail == 10, (faulty.end, faulty.detail)
    twin = outcome(nodes, 1000 * MIB, True)
    assert twin.end == "exit" and not twin.unsure and twin.low_peak == 100 * MIB


def test_an_end_near_the_limit_is_not_decided():
    assert outcome([alloc(0, 0, "plain", 990 * MIB)], 1000 * MIB).unsure
    assert not outcome([alloc(0, 0, "plain", 900 * MIB)], 1000 * MIB).unsure


def test_shared_pages_stay_until_their_last_block_is_freed():
    nodes = [loop(400, [alloc(0, 0, "plain", MIB)]), Node("freehalf", 0), alloc(1, 0, "plain", 600 * MIB)]
    walk = plans.holds(nodes, 900 * MIB, 10000, by_page=True)
    assert walk.end == "oom", walk.end
    assert plans.holds(nodes, 900 * MIB, 10000).end == "exit"  # the blocks alone would fit


def test_a_refusal_that_is_handled():
    nodes = [alloc(0, 0, "plain", 5000 * MIB, op="try"), Node("iffailed", body=[Node("exit", 3)])]
    walk = outcome(nodes, 1000 * MIB)
    assert (walk.end, walk.detail, walk.refusals) == ("exit", 3, 1)


def test_own_cache_reuses_what_it_has():
    step = [alloc(0, 0, "cached", 100 * MIB), Node("freeall", 0)]
    walk = outcome([loop(50, step)], 1000 * MIB)
    assert walk.end == "exit" and walk.high_peak <= 100 * MIB + PAGE, walk.high_peak


def test_drafts_are_the_same_each_time():
    for index in range(20):
        one, other = truth.Program(5, index), truth.Program(5, index)
        assert one.write_text() == other.write_text(), index


def test_every_family_is_drawn():
    seen = set()
    for index in range(400):
        seen.add(truth.Program(random.Random(3).randrange(1000), index).family)
    missing = {build.__name__ for _, build, _ in families.FAMILIES} - seen
    assert not missing, missing


def main():
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print("passed", name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
