//! The round as a pure state machine, and aggregation.
