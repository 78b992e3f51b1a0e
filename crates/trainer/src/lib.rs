//! The native headless client.
