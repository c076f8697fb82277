"""Programs of torch.export (`.pt2`): `file/` reads the archive without torch, `operators/` says
what its calls of ATen become, `importer.py` joins both.

Nothing in an archive is unpickled or evaluated: weights are bytes, sizes have a grammar.
"""
