"""Checking many models with their inputs, golden tensors and labels, one table of all.

cases.py      what belongs to a model: a TOML file      examine.py   one model on one target
sources.py    arrays from files                          labels.py    accuracy on labelled data
steps.py      named preprocessing                        process.py   the child that does either
jobs.py       children with bounds, results kept         table.py     the table as text or page
"""
