//! Closed-form attacks on what a client sent.
