"""Every noun of the contract as named statements: what is the same on all databases."""
