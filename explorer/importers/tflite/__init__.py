"""TFLite (LiteRT) models.

file/        a flatbuffer within bounds: `TfliteContent`, every field of the schema
operators/   what each operator becomes, a function by its name
importer.py  both as one of the explorer's formats
"""
