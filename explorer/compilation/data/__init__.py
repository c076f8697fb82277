"""The data on which a compilation is judged: attached by a person, or drawn from what is known.

reading    files, folders of images and cases to arrays by input
attached   arrays that fit a model, cut into runs of the compiled batch
judging    outputs against the float source over all examples
"""
