//! Makes Rust types of `proto/fleet.proto`, without `protoc`.

use std::error::Error;

const PROTOCOL: &str = "proto/fleet.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTOCOL}");
    let mut config = prost_build::Config::new();
    // Pieces of arrays, which are shared and not copied.
    config.bytes(["PullObjectResponse.content", "PushObjectRequest.content"]);
    config.compile_fds(protox::compile([PROTOCOL], ["proto"])?)?;
    Ok(())
}
