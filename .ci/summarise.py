#!/usr/bin/env python3
"""Counts the results of .ci/run: cases of every test program, and checks.

A program that CTest calls failed without having written its cases (a crash, a timeout) counts as one
failure. The last line is "N passed, N failed, N skipped"; exits 1 if anything failed.
"""

import pathlib
import sys
import xml.etree.ElementTree as xml


def main():
    results = pathlib.Path(sys.argv[1])
    passed, failed, skipped = [], [], []
    for line in (results / "checks.txt").read_text().splitlines():
        name, outcome = line.rsplit(" ", 1)
        (passed if outcome == "passed" else failed).append(name)
    for suite in sorted(results.glob("*.ctest.xml")):
        run = suite.name.removesuffix(".ctest.xml")
        told = {}  # program -> whether its own report has a failure
        for path in sorted((results / run).glob("*.xml")):
            told[path.stem] = False
            for case in xml.parse(path).getroot().iter("testcase"):
                name = f"{run}: {case.get('classname')}.{case.get('name')}"
                if case.find("failure") is not None:
                    failed.append(name)
                    told[path.stem] = True
                elif case.find("skipped") is not None or case.get("status") == "notrun":
                    skipped.append(name)
                else:
                    passed.append(name)
        for program in xml.parse(suite).getroot().iter("testcase"):
            name = program.get("name")
            if program.get("status") == "fail" and not told.get(name):
                # Died before its report, or after it (a leak, a sanitizer's exit code).
                failed.append(f"{run}: {name}, the program")
            elif program.get("status") == "run" and name not in told:
                passed.append(f"{run}: {name}")
    for name in skipped:
        print(f"skipped  {name}")
    for name in failed:
        print(f"FAILED   {name}")
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
