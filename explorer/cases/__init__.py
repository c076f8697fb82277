"""What belongs to models besides their files: tables of cases, and the arrays that they name.

cases.py      what belongs to a model: a TOML file      steps.py     named preprocessing
sources.py    arrays from files                         labels.py    labelled examples, one by one
"""
