"""Values to bytes and columns and back; messages over sockets."""
