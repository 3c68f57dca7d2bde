# SPDX-License-Identifier: MIT
"""HiGHS on the extensive form of what `bench_fleet ... --dump` prints: ours must be within its gap, and
our bound below HiGHS's best. Exit 0 yes, 1 no, 77 without highspy.

  bench_fleet INSTANCE 50 0 .95 .01 1 --dump | fleet_extensive.py [SECONDS]
"""
import json
import sys
import time

try:
    import highspy
    import numpy as np
except ImportError:
    sys.exit(77)

p = json.load(sys.stdin)
K, G, B, W = p["n_offer"], p["n_type"], p["n_bucket"], p["n_scenario"]
rate, per_s = np.array(p["rate_per_s"]), np.array(p["per_s"]).reshape(B, G)
there = np.array(p["there"]).reshape(W, K)
rate_all, offer_type = rate.sum(), [k // 2 % G for k in range(K)]

h = highspy.Highs()
h.setOptionValue("output_flag", False)
h.setOptionValue("mip_rel_gap", 1e-4)
h.setOptionValue("time_limit", float(sys.argv[1]) if len(sys.argv) > 1 else 300.0)
x = [h.addVariable(0, p["quota"], p["usd_per_h"][k]) for k in range(K)]
for v in x:
    h.changeColIntegrality(v.index, highspy.HighsVarType.kInteger)
var = h.addVariable(0, 1)
above = [h.addVariable(0, 1) for _ in range(W)]
h.addConstr(var + sum(above) * (1 / W / (1 - p["tail"])) <= p["unserved"])
for w in range(W):
    runs = [h.addVariable(0, int(there[w][k])) for k in range(K)]
    for k in range(K):
        h.addConstr(runs[k] - x[k] <= 0)
    lost = [h.addVariable(0, 1) for _ in range(B)]
    share = [[h.addVariable(0, 1 if per_s[b][g] > 0 else 0) for g in range(G)] for b in range(B)]
    for b in range(B):
        h.addConstr(sum(share[b]) + lost[b] == 1)
    for g in range(G):
        load = sum(share[b][g] * (rate[b] / per_s[b][g]) for b in range(B) if per_s[b][g] > 0 and rate[b] > 0)
        h.addConstr(load - p["rho"] * sum(runs[k] for k in range(K) if offer_type[k] == g) <= 0)
    h.addConstr(sum(lost[b] * (rate[b] / rate_all) for b in range(B)) - var - above[w] <= 0)
start = time.process_time()
h.run()
took = time.process_time() - start
info = h.getInfo()
best, bound = info.objective_function_value, info.mip_dual_bound
ok = bound <= p["ours"] * (1 + 1e-6) and p["bound"] <= best * (1 + 1e-6)
print(json.dumps({"ours": p["ours"], "bound": p["bound"], "cpu_s": p["cpu_s"], "highs": best, "highs_bound": bound, "highs_cpu_s": round(took, 2)}))
sys.exit(0 if ok else 1)
