from __future__ import annotations
import sys
from simulation.model.protocol import Protocol
from simulation.model.scenarios import SMALL, LARGE
from simulation.model.rules import RULES
from simulation.model.search import explore
W={s.name:s for s in (*SMALL,*LARGE)}
for r in RULES:
    if len(sys.argv)>1 and not any(a in r.name for a in sys.argv[1:]): continue
    e=explore(Protocol(W[r.world],r.off), limit=120000)
    ok = bool(e.found and e.found.startswith(r.breaks))
    print(f"{'ok ' if ok else 'BAD'} {r.name[:50]:50} {r.world:20} {e.states:8} {e.depth:3} {e.seconds:6.1f}s {'CUT' if e.cut else ''} {e.found or ''}",flush=True)
    if len(sys.argv)>1:
      for l in e.trace: print("     ",l)
