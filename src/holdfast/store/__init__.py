"""Where it is kept: the only folder with SQL. `contract.py` is what the runtime may ask for."""
