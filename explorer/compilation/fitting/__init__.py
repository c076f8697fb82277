"""Fitting a program into a budget: decisions that cost little time and save memory.

levers     what could be decided otherwise where memory is fullest, with bytes and time
chains     operations that could run in bands, and what would live at once then
search     levers one after the other until the program fits
"""
