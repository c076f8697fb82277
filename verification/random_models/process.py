"""A child process that tries random models, one request after another.

{"seed": 7, "devices": ["CPU", "OPENCL"], "folder": "out"}     see differential.py
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

from verification.conformance.suite import open_here
from verification.random_models.differential import compare_seed


def main() -> None:
    warnings.simplefilter("ignore")  # of NumPy, about infinities
    with os.fdopen(int(sys.argv[1]), "w") as replies:
        for line in sys.stdin:
            request = json.loads(line)
            folder = Path(request["folder"]) if request.get("folder") else None
            found = compare_seed(request["seed"], request["devices"], open_here, folder)
            replies.write(json.dumps(found) + "\n")
            replies.flush()


if __name__ == "__main__":
    main()
