"""Audit of somebody else's published table: `table.parse` reads it, `groups.audit` re-reads what it supports."""
