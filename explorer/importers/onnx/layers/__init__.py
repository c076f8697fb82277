"""Operators that are whole layers: attention, recurrent cells."""
