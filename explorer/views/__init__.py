"""Pictures of finished results: pure functions from `explorer.results` to something to look at.

Nothing here compiles or fetches, and no program but Graphviz's `dot` runs. `register` lists every
view with its faces. `drawing` places graphs and closes their blocks, `theme` and `numbers` are the
one visual language, `static` makes the text and HTML of plain notebooks.
"""
