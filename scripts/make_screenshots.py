"""Makes the pictures of README.md from real compilations, in a headless Chromium.

    python scripts/make_screenshots.py [--only explorer diff linked notebook] [--output docs/images]

    explorer.png   ResNet-50 as it opens: passes, graph, memory (digits_resnet without its file)
    diff.png       what one pass did: batch normalizations fold into convolutions
    linked.png     one convolution, found in graph, loops, C, and the comparison with its source
    notebook.png   the explorer in a cell of JupyterLab

ResNet-50 is `onnx/light_resnet50.onnx` below the folder that `EXPLORER_MODELS` names (from the
repository's root; `../shared/models` if it is not set). Needs Chromium (`EXPLORER_CHROMIUM` names
another one than /usr/bin/chromium).
"""

from __future__ import annotations
