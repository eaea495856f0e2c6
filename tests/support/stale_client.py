"""A client of log format version 1 that slept: it writes what it read before others went on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.support.v1_client import V1Client
from tests.support.world import MemoryStore, World


def sleeper(world: World, partition: str) -> Callable[[int], str]:
    """A client that has read the table as it is now and is about to merge a partition.

    What is returned lets it go on: it writes its part and its log file, under a name with time
    ``t`` (unix ms), and returns the key of the log file. Whatever happened to other parts
    meanwhile, its log file holds copies of their markers from before.
    """
    seen = MemoryStore(world.clock)
    seen.objects = dict(world.store.objects)
    client = V1Client(replace(world, store=seen))
    assert client.merge(partition) is not None
    made = {key: value for key, value in seen.objects.items() if key not in world.store.objects}

    def goes_on(t: int) -> str:
        written = ""
        for key, (data, _) in made.items():
            name = key
            if "/_log/" in key:
                folder, _, rest = key.rpartition("/")
                written = name = f"{folder}/{t}_{rest.partition('_')[2]}"
            assert name not in world.store.objects
            world.store.objects[name] = (data, world.clock.now)
        return written

    return goes_on
