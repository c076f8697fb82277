"""The program cache: what was compiled once is not compiled again, in any process.

    cache = default_cache()                   # EXPLORER_CACHE names its folder, or says `off`
    found = cache.find(key)                   -> FoundEntry(payload, tier="folder")
                                               | Missed(reason="the compiler changed: gcc 12 ...")
    cache.store(key, payload, ...)

keys.py says what a program depends on, entries.py how one lies in a file, store.py looks up,
stores and drops, folder.py decides where, c_programs.py and opencl_programs.py are the two back
ends, trial.py tries a binary of unknown quality in a process of its own.
"""

from explorer.runtime.cache.entries import Entry
from explorer.runtime.cache.folder import default_cache
from explorer.runtime.cache.keys import ProgramKey
from explorer.runtime.cache.store import FoundEntry, Missed, ProgramCache

__all__ = ["Entry", "FoundEntry", "Missed", "ProgramCache", "ProgramKey", "default_cache"]
