"""Where it is kept: the only folder with SQL. `store/contract/__init__.py` is what the runtime may ask for."""
