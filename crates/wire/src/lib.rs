//! Every byte on the socket, and the JSON a projector reads.
