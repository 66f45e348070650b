"""How the runtime is reached from Python."""
