"""What Holdfast knows: frozen values and pure rules. No clock, no store, no user code is called here."""
