"""HTTP: the same calls for other machines and languages. Needs the extra `server`.

What the door can do is one table: `calls.py` says what a call is, the modules `*_calls.py` list them, noun by noun.
Everything else serves that table: `app.py` routes and answers, `bodies.py` reads, `identity.py` lets in, `exchange.py`
answers and says what went wrong, `streams.py` follows runs, `openapi.py` describes it all, `serve.py` listens.
"""
