from __future__ import annotations
import sys, time
from simulation.model.protocol import Protocol
from simulation.model.scenarios import SCENARIOS
from simulation.model.search import explore
names=[a for a in sys.argv[1:] if not a.startswith("--")]
off=frozenset(a[2:] for a in sys.argv[1:] if a.startswith("--"))
for s in SCENARIOS:
    if names and s.name not in names: continue
    e=explore(Protocol(s,off), limit=1200000)
    print(f"{s.name:20} {e.states:8} {e.depth:3} {e.seconds:6.1f}s {'CUT' if e.cut else ''} {e.found or ''}")
    for l in e.trace: print("     ",l)
