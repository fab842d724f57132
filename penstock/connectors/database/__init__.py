"""Sinks for databases: rows and the marker of their checkpoint in one transaction."""

from penstock.connectors.database.database_sink import DatabaseSink, DialectSink
from penstock.connectors.database.database_table import Column, DatabaseTable
from penstock.connectors.database.dialect import Dialect
from penstock.connectors.database.password import Password

__all__ = ["Column", "DatabaseSink", "DatabaseTable", "Dialect", "DialectSink", "Password"]
