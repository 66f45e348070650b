"""Looking after a home: verify, gc, travel, audit."""
