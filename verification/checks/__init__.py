"""Checking many models with their inputs, golden tensors and labels, one table of all.

examine.py    one model on one target                    labels.py     accuracy on labelled data
jobs.py       children with bounds, results kept         process.py    the child that does either
command.py    the command                                table.py      the table as text or page

What belongs to a model, and how arrays are read, stands in `explorer/cases/`.
"""
