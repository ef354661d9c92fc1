"""``python -m tests.fuzz [--seconds N] [--seed N] [--target NAME [--case N]]``."""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import sys
import time

from tests.fuzz.cases import FuzzFailure, run_case
from tests.fuzz.targets import TARGETS

ROUND = 200
"""Cases of a target before the next one has its turn."""


def main() -> int:
    """Run cases of all targets in turn. Return 1 if one has failed; every target stops at its first failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30), help="the first case")
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--case", type=int)
    options = parser.parse_args()
    logging.disable()
    names = list(TARGETS) if options.target is None else [options.target]
    if options.case is not None:
        run_case(names[0], options.case)
        return 0
    print(f"{len(names)} targets for {options.seconds:.0f} s from --seed {options.seed}", flush=True)
    ends, count, failures = time.monotonic() + options.seconds, 0, 0
    for first in itertools.count(options.seed, ROUND):
        for name in list(names):
            for number in range(first, first + ROUND):
                if time.monotonic() > ends or not names:
                    print(f"{count:,} cases, {failures} failures")
                    return min(1, failures)
                count += 1
                try:
                    run_case(name, number)
                except FuzzFailure as failure:
                    print(f"\n{failure}\n", flush=True)
                    failures += 1
                    names.remove(name)
                    break
    return 0


if __name__ == "__main__":
    sys.exit(main())
