"""How Alembic runs: over a connection that :mod:`clinometer.web.database` hands it."""

from alembic import context

from clinometer.web.database import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
