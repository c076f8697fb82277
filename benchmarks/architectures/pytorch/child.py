"""A child process that judges architectures, one request after another, in bounded memory.

    python child.py REPLY_FD GIGABYTES [FOLDER ...]

    parent  ── {"name": "plain/lstm", "way": "file"} ──▶  child
            ◀────────────────── the `Result` as JSON ────

FOLDERs are searched for packages behind those of this environment. After a lack of memory the
process ends, so that the next one begins with all of it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from dataclasses import asdict
from pathlib import Path


def main() -> None:
    descriptor, gigabytes, *folders = sys.argv[1:]
    limit = int(gigabytes) << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))  # of compilers that it starts, too
    sys.path.append(str(Path(__file__).resolve().parents[3]))  # of `verification`
    sys.path.extend(folders)
    import compiled
    import judged
    import torch

    judges = {"file": judged.judge, "torch.compile": compiled.judge}
    torch.set_num_threads(1)
    with os.fdopen(int(descriptor), "w") as replies:
        for line in sys.stdin:
            request = json.loads(line)
            result = judges[request["way"]](request["name"])
            replies.write(json.dumps(asdict(result)) + "\n")
            replies.flush()
            if result.status == judged.NO_MEMORY:
                return


if __name__ == "__main__":
    main()
