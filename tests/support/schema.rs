//! Checks a report against its schema in `docs/schema`.

use std::{fs, path::Path};

use serde_json::Value;

/// Fails with each violation and its place.
pub fn assert_conforms(report: &Value, schema: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/{schema}.json"));
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let address = format!("https://schema.invalid/{schema}.json");
    let mut compiler = boon::Compiler::new();
    compiler.add_resource(&address, serde_json::from_slice(&text).unwrap()).unwrap();
    let mut schemas = boon::Schemas::new();
    let index = compiler.compile(&address, &mut schemas).unwrap_or_else(|error| panic!("{schema}: {error:#}"));
    if let Err(error) = schemas.validate(report, index) {
        panic!("{schema}: {error:#}\n{report:#}");
    }
}
