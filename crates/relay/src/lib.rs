//! The relay: rooms over HTTP(S) and WebSocket, rounds, storage and live attacks.
