#!/usr/bin/env python3
"""Prints the failed tests in reports of ctest, each with the end of its output.

Usage: scripts/failed_tests.py JUNIT_XML...
"""

import sys
import xml.etree.ElementTree as ET

LINES = 40


def main() -> None:
    for report in sys.argv[1:]:
        for case in ET.parse(report).getroot().iter("testcase"):
            if case.get("status") != "fail":
                continue
            print(f"--- {report}: {case.get('name')}, {float(case.get('time', 0)):.1f} s")
            printed = (case.findtext("system-out") or "").splitlines()
            print("\n".join(printed[-LINES:]))


if __name__ == "__main__":
    main()
