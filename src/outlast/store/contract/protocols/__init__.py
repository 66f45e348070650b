"""What the rooms above may ask of a store: one protocol for each noun, and `store.py` with the whole.

Who is given a store only says that it is one. So `contract` names them for checkers alone, and none of this is loaded
while a program runs, but where what they ask is looked at.
"""
