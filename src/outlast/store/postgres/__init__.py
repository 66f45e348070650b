"""The store in a PostgreSQL database, a schema for each tenant. Whoever loads this needs the extra."""

from outlast.store.postgres.keys import KeyTable as KeyTable
from outlast.store.postgres.open import PostgresStore as PostgresStore
from outlast.store.postgres.schema import tenants_of as tenants_of
from outlast.store.postgres.tables import NewSchema as NewSchema
from outlast.store.postgres.tables import SchemaTables as SchemaTables
