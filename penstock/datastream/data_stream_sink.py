"""`DataStreamSink`: a sink at the end of a stream."""

from penstock.datastream.node_settings import NodeSettings


class DataStreamSink(NodeSettings):
    """A sink that was added to a stream. It can have a name and a uid."""

    def __repr__(self) -> str:
        return f"<DataStreamSink {self._node.name!r}>"
