//! Generates Rust types from `proto/fleet.proto`, without `protoc`.

use std::error::Error;

const PROTOCOL: &str = "proto/fleet.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTOCOL}");
    let mut config = prost_build::Config::new();
    // Share the pieces of arrays instead of copying them.
    config.bytes(["PullObjectResponse.content", "PushObjectRequest.content"]);
    config.compile_fds(protox::compile([PROTOCOL], ["proto"])?)?;
    Ok(())
}
