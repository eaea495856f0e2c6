"""Rules that can be switched off in the model. Names as in ``simulation.rules`` where it has them.

A rule that another one backs up is not found alone: then those are switched off ``beside`` it, and
the model has to be clean with only these off.
"""

from __future__ import annotations

from dataclasses import dataclass

FENCE = (
    "readers take what is behind the fence",
    "readers take log files that came back",
    "a committer does not go by the fence of its base",
    "a committer does not look after its put",
    "a sweep does not go by the fence",
    "a delete record goes before the fence",
    "clean-up deletes transactions above the fence",
)
"""The fence (docs/rfcs/0016-a-fence-of-numbers.md), but for the tombstones of log files: without
it these went by a clock."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the protocol."""

    name: str
    world: str
    """The world that finds it when it is switched off (``worlds.EVERY_RUN``)."""
    breaks: str
    """How what is found then begins."""
    beside: tuple[str, ...] = ()
    """Rules that are switched off besides, because they back it up."""
    switches: tuple[str, ...] = ()
    """What is switched off, where that is not called as the rule."""

    @property
    def off(self) -> frozenset[str]:
        """All that is switched off."""
        return frozenset((*(self.switches or (self.name,)), *self.beside))


_LOST = "a live part has no object"
_TWICE = "a stream delivers rows twice"
_REBUILT = "a rebuild sees other parts"
_BOUNDS = "metadata states bounds of erased rows"
_METADATA = "metadata of a mirror"
_BACK = ("readers take log files that came back",)
_SWEEP = ("a sweep does not go by the fence",)
_HIDDEN = "row 1 is there, and a delete of it was reported as done"

RULES = (
    Rule("no fence", "outputs", _LOST, switches=FENCE),
    Rule("no fence: numbers", "numbers", _HIDDEN, switches=FENCE),
    Rule("the fence waits for nobody", "appends", "row 3 is lost"),
    Rule("readers take what is behind the fence", "appends", _LOST),
    Rule("readers take log files that came back", "publications that come back", _TWICE),
    Rule("a committer does not go by the fence of its base", "outputs", _LOST),
    Rule("a committer does not look after its put", "numbers", _HIDDEN),
    Rule("a sweep does not go by the fence", "outputs", _LOST),
    Rule(
        "what is behind the fence was read by nobody",
        "readers of late appends",
        "a reader loses a part within its grace",
    ),
    Rule(
        "the grace of what came too late begins when it lands",
        "readers of late appends",
        "a reader loses a part within its grace",
    ),
    Rule("a log tombstone goes before the fence", "appends that come back", _LOST),
    Rule(
        "a fold forgets what a torn listing does not show",
        "a torn listing",
        _TWICE,
        switches=("a log tombstone goes before the fence",),
    ),
    Rule("a delete record goes before the fence", "appends under a delete", "row 3 is there"),
    Rule("clean-up deletes transactions above the fence", "two sleepers", _LOST),
    Rule("a rival shows that the own put failed", "two sleepers", _LOST),
    Rule("what cannot be known has not happened", "numbers of merges", _LOST),
    Rule(
        "an append is acknowledged whenever it lands",
        "appends",
        "row 3 is lost",
    ),
    Rule("folded log files list parts alive", "publications that come back", "who reads all"),
    Rule("a transaction that never took effect counts", "below a gap", _REBUILT),
    Rule("what lies below a gap counts", "below a gap", _REBUILT),
    Rule("no conflict check", "rivals", "row 1 is there 2 times"),
    Rule("append reads its sequence from the log", "unpublished", "row 3 is lost"),
    Rule("a publisher never is too late", "late publishers", _LOST, beside=_BACK),
    Rule("no commit_ttl", "awake", _LOST, beside=_SWEEP),
    Rule("no append.ttl", "awake", _LOST, beside=_SWEEP),
    Rule("a purge ignores who lists a part alive", "tiers", _LOST),
    Rule("new parts have the sequence of their own transaction", "rivals", _HIDDEN),
    Rule("delete records are dropped at once", "rivals", "row 3 is there"),
    Rule("the grace is counted from the tombstone alone", "late publications", "a reader loses"),
    Rule("an orphan of any age is swept", "awake", _LOST, beside=_SWEEP),
    Rule("the sweep publishes nothing first", "awake", _LOST, beside=_SWEEP),
    Rule("'exists already' always is a rival", "a lost answer", _LOST),
    Rule("an unknown commit counts as failed", "a lost answer", _LOST),
    Rule("an alive marker beats a dead one", "tiers", "who reads all"),
    Rule(
        "a certificate does not look for objects without name",
        "an erase",
        "an erase is certified as complete, and output",
    ),
    Rule(
        "changes take a merge for silent whatever landed in between",
        "a feed of changes",
        "changes add up to rows that the table never had",
    ),
    Rule(
        "a restore leaves records of erases to others",
        "a restore and an erase",
        "erased rows are there",
    ),
    Rule(
        "nobody looks for what a restore put beneath",
        "a restore and a merge",
        "a deleted key comes back",
    ),
    Rule(
        "metadata goes by the grace of the settings",
        _METADATA,
        "a snapshot leads to metadata that is gone",
    ),
    Rule("the record of a file that goes states its bounds", _METADATA, _BOUNDS),
    Rule("an erase leaves the snapshots of before it", _METADATA, _BOUNDS),
    Rule("who stood still writes metadata all the same", _METADATA, _BOUNDS),
    Rule(
        "snapshots stay that would be read wrongly",
        _METADATA,
        "a snapshot reads a column as another",
    ),
)
"""The rules, those of the fence first."""
