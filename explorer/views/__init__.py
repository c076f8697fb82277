"""Pictures of finished results: pure functions from `explorer.results` to something to look at.

Nothing here compiles, runs or fetches. `register` lists every view with its faces. `layout` and
`collapse` place graphs, `theme` and `numbers` are the one visual language, `static` makes the text
and HTML of plain notebooks.
"""
