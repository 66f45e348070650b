"""The store in a PostgreSQL database, a schema for each tenant."""
