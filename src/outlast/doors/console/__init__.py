"""The console: pages for people, at `/` of a server. It asks for operations, as every other door does."""
