"""The surface of the embedded one over HTTP."""
