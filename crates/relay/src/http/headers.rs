//! Security headers.

use std::sync::LazyLock;

use anyhow::Context as _;
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
    let policy = policy(&page::documents()) + NO_FRAMES;
    HeaderValue::from_str(&policy).unwrap_or_else(|error| {
        error!("the content security policy {policy:?} is invalid ({error}); using the strictest one instead");
        HeaderValue::from_static("default-src 'none'")
    })
});

/// What only a header can forbid: an element of the page cannot.
const NO_FRAMES: &str = "; frame-ancestors 'none'";

/// Adds the policy to a document that other servers will serve, or that is opened from a disk. It stands at the start of
/// the head, because a policy governs only what follows it.
///
/// # Errors
/// The document has no head.
pub(super) fn with_policy(document: &str) -> anyhow::Result<String> {
    let element = unmask_html::policy(&policy(document)).into_string();
    let (before, after) = document.split_once("<head>").context("the page has no <head> for its policy")?;
    Ok(format!("{before}<head>{element}{after}"))
}

/// Returns the policy for these documents, which allows each inline script by its hash.
fn policy(documents: &str) -> String {
    let hash = |script: &str| format!(" 'sha256-{}'", STANDARD.encode(digest(&SHA256, script.as_bytes())));
    let hashes: String = inline_scripts(documents).map(hash).collect();
    format!(
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'{hashes}; worker-src 'self'; style-src 'self' \
         'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; object-src 'none'; \
         base-uri 'none'; form-action 'self'"
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

    /// The folder that `unmask replay --export` writes comes without this server's headers.
    #[test]
    fn an_exported_page_has_its_own_policy() {
        let page = "<!DOCTYPE html><html><head><link href=\"a.css\"></head><script>start();</script></html>";
        let exported = with_policy(page).unwrap();
        let (head, rest) = exported.split_once("<link").unwrap();
        let policy = head.split_once("<head><meta http-equiv=\"Content-Security-Policy\" content=\"").unwrap().1;
        let policy = policy.strip_suffix("\">").unwrap();
        assert_eq!(format!("<link{rest}"), page.split_once("<head>").unwrap().1);
        assert!(policy.contains("'sha256-E6jQvrT2ZivWG9GJ4AAEZf4MhI7l3QkLroW4hgvUT4c='"), "{policy}");
        assert!(policy.starts_with("default-src 'self';") && policy.contains("connect-src 'self';"), "{policy}");
        let sources = policy.split("; ").flat_map(|directive| directive.split(' ').skip(1));
        for source in sources.filter(|source| !source.starts_with("'sha256-")) {
            let own = ["'self'", "'none'", "'unsafe-inline'", "'wasm-unsafe-eval'", "data:", "blob:"];
            assert!(own.contains(&source), "{source} in {policy}");
        }
        assert!(!policy.contains("frame-ancestors"), "an element cannot forbid frames: {policy}");
        with_policy("<p>no head").unwrap_err();
    }

    #[test]
    fn page_without_scripts_gets_none() {
        assert!(policy("").contains("script-src 'self' 'wasm-unsafe-eval';"));
        assert_eq!(inline_scripts("<script>cut off").count(), 0);
    }
}
