//! One federated client as a pure state machine, shared by the tab and the native client.
