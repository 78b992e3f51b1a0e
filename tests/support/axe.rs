//! axe-core, which checks the accessibility of a page.

use std::{io::Read as _, sync::LazyLock};

use flate2::read::GzDecoder;

use super::{Scheme, Tab, skipped};

/// Defines `window.axe`.
static SOURCE: LazyLock<String> = LazyLock::new(|| {
    let mut source = String::new();
    let packed = &include_bytes!("axe-core/axe.min.js.gz")[..];
    GzDecoder::new(packed).read_to_string(&mut source).expect("axe-core is packed as text");
    source
});

/// Each violation on a line: rule, description, place, and reason.
const VIOLATIONS: &str = r"
const done = arguments[arguments.length - 1];
const line = (rule, node) => `${rule.id} (${rule.help}): ${node.target.join(' ')}: ${node.failureSummary.replace(/\s+/g, ' ')}`;
axe.run(document, { resultTypes: ['violations'] }).then(
  found => done(found.violations.flatMap(rule => rule.nodes.map(node => line(rule, node))).join('\n')),
  error => done(`axe-core fails: ${error}`));";

/// Fails with all violations of axe-core's rules on the current page, in light and in dark.
pub async fn assert_accessible(tab: &Tab, place: &str) {
    if !tab.has_devtools() {
        skipped(format!("{place}: axe-core checks light and dark only in Chromium"));
        return;
    }
    let mut found = Vec::new();
    for scheme in Scheme::ALL {
        tab.prefer(scheme).await;
        if tab.wait_for("typeof axe").await != "object" {
            tab.run(&SOURCE).await;
        }
        let violations = tab.run_async(VIOLATIONS).await;
        let violations = violations.as_str().expect("lines");
        if !violations.is_empty() {
            found.push(format!("{place}, {scheme:?}:\n{violations}"));
        }
    }
    tab.prefer(Scheme::Light).await;
    assert!(found.is_empty(), "{}", found.join("\n"));
}
