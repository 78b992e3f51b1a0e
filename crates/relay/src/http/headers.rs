//! Security headers.

use std::sync::LazyLock;

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::Response,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use ring::digest::{SHA256, digest};
use tracing::error;

use super::page;

/// Adds headers that allow only the page's own scripts and hosts, forbid framing, and isolate it from other sites.
pub(crate) async fn secured(mut response: Response) -> Response {
    const HEADERS: [(HeaderName, &str); 5] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("permissions-policy"), "camera=(self), microphone=(), geolocation=()"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    response
}

/// Computed once, because the pages do not change while the relay runs.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = policy(&page::documents());
    HeaderValue::from_str(&policy).unwrap_or_else(|error| {
        error!("the content security policy {policy:?} is invalid ({error}); using the strictest one instead");
        HeaderValue::from_static("default-src 'none'")
    })
});

/// Returns the policy for these documents, which allows each inline script by its hash.
fn policy(documents: &str) -> String {
    let hash = |script: &str| format!(" 'sha256-{}'", STANDARD.encode(digest(&SHA256, script.as_bytes())));
    let hashes: String = inline_scripts(documents).map(hash).collect();
    format!(
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'{hashes}; worker-src 'self'; style-src 'self' \
         'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; object-src 'none'; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
}

/// Returns the bodies of scripts without a `src`. This simple search suffices because `crates/bundle` writes no script
/// that contains a tag.
fn inline_scripts(documents: &str) -> impl Iterator<Item = &str> {
    documents.split("<script").skip(1).filter_map(|rest| {
        let (attributes, rest) = rest.split_once('>')?;
        let (script, _) = rest.split_once("</script>")?;
        let has_source = attributes.split_ascii_whitespace().any(|attribute| attribute.starts_with("src="));
        (!has_source).then_some(script)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected hash: `printf 'start();' | openssl dgst -sha256 -binary | base64`.
    #[test]
    fn inline_scripts_are_allowed_by_their_hash_alone() {
        let page = "<html><script src=\"a.js\"></script><script type=\"module\">start();</script><p>text</p></html>";
        assert_eq!(inline_scripts(page).collect::<Vec<_>>(), ["start();"]);
        let policy = policy(page);
        assert!(
            policy.contains(
                "script-src 'self' 'wasm-unsafe-eval' 'sha256-E6jQvrT2ZivWG9GJ4AAEZf4MhI7l3QkLroW4hgvUT4c=';"
            ),
            "{policy}"
        );
        assert!(policy.contains("connect-src 'self';") && !policy.contains("ws:"), "{policy}");
    }

    #[test]
    fn page_without_scripts_gets_none() {
        assert!(policy("").contains("script-src 'self' 'wasm-unsafe-eval';"));
        assert_eq!(inline_scripts("<script>cut off").count(), 0);
    }
}
