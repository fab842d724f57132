"""Values to bytes and columns and back; messages over sockets."""

from penstock.codec.columns import copier, decode_column, encode_column, is_immutable
from penstock.codec.keys import KeyCodec
from penstock.codec.row_codec import RowCodec

__all__ = ["KeyCodec", "RowCodec", "copier", "decode_column", "encode_column", "is_immutable"]
