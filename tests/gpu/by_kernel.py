#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The time of each kernel, from the CSV of ncu: name<TAB>launches, ms, share."""
import csv
import sys

MS = {"nsecond": 1e-6, "ns": 1e-6, "usecond": 1e-3, "us": 1e-3, "msecond": 1, "ms": 1, "second": 1e3, "s": 1e3}
METRIC = "gpu__time_duration.sum"
unit, total = 1e-6, {}
for row in csv.DictReader(line for line in sys.stdin if line.startswith('"')):
    value = (row.get(METRIC) or "").replace(",", "")
    if value in MS:  # the line of units
        unit = MS[value]
    elif value.replace(".", "", 1).isdigit():
        name = row["Kernel Name"].split("(")[0].replace("void ", "")[:44]
        n, ms = total.get(name, (0, 0.0))
        total[name] = n + 1, ms + float(value) * unit
all_ms = sum(ms for _, ms in total.values())
print(f"all\t{sum(n for n, _ in total.values())} launches, {all_ms:.2f} ms")
for name, (n, ms) in sorted(total.items(), key=lambda x: -x[1][1]):
    print(f"{name}\t{n} launches, {ms:.3f} ms, {100 * ms / all_ms:.1f} %")
