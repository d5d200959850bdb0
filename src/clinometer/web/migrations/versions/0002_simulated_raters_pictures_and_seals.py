"""Simulated raters are marked, pictures that are shown at once are kept, and tables have seals."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add them. Until now simulated raters were told by their names alone; those of people are hexadecimal."""
    op.add_column("raters", sa.Column("simulated", sa.Boolean(), nullable=False, server_default=sa.false()))
    raters = sa.table("raters", sa.column("name", sa.String), sa.column("simulated", sa.Boolean))
    op.execute(raters.update().where(raters.c.name.like("skill-%")).values(simulated=True))
    op.add_column("items", sa.Column("pictures", sa.JSON(), nullable=False, server_default="[]"))
    op.create_table(
        "seals",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
