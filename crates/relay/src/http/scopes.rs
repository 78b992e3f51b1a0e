//! Access control by a request's secret, its `Host`, and the `Origin` of the page that sends it.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use unmask_wire::view::Role;

use super::{
    names::{Names, OverTls, is_same_origin},
    pin::Pin,
    qr,
    secrets::Secrets,
    student_link,
};

pub(crate) struct Scopes {
    pub(crate) secrets: Secrets,
    pub(crate) pin: Pin,
    pub(crate) names: Names,
    /// Name of the cookie that holds a secret. Cookies ignore ports, so each relay on a machine needs its own name.
    pub(crate) cookie: String,
    /// Whether browsers may send the cookie over HTTPS only.
    pub(crate) is_cookie_secure: bool,
}

impl Scopes {
    pub(crate) fn role(&self, headers: &HeaderMap) -> Option<Role> {
        let bearer = bearer(headers).and_then(|secret| self.secrets.role_of(secret));
        bearer.or_else(|| self.role_by_cookie(headers))
    }

    /// The QR code of the students' link.
    pub(crate) fn qr_svg(&self, address: &str) -> String {
        qr::svg(&student_link(address, &self.secrets.students()))
    }

    /// Number of the students' keys before the one that this request carries, or before the present one.
    pub(crate) fn keys_before(&self, headers: &HeaderMap) -> u32 {
        let mut given = bearer(headers).into_iter().chain(cookies(headers, &self.cookie));
        let secret = given.find(|secret| self.secrets.role_of(secret).is_some());
        self.secrets.keys_before(secret.unwrap_or_default())
    }

    /// Whether this request comes from a robot that this program started.
    pub(crate) fn is_own_robot(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|secret| self.secrets.is_own_robots(secret))
    }

    /// Returns why a request is refused regardless of its role.
    fn objection(&self, request: &Request) -> Option<(StatusCode, String)> {
        let headers = request.headers();
        let host = host(request).unwrap_or_default();
        if !self.names.is_own_host(host) {
            let sentence = format!(
                "This relay is not known as {host:?}. To let students open it under that name, start it with --host \
                 and the name."
            );
            return Some((StatusCode::MISDIRECTED_REQUEST, sentence));
        }
        let has_origin = headers.contains_key(header::ORIGIN);
        let is_over_tls = request.extensions().get::<OverTls>().is_some();
        let is_own = |origin: &str| is_same_origin(origin, host, is_over_tls);
        if has_origin && !text(headers, header::ORIGIN).is_some_and(is_own) {
            let sentence = "This request comes from a page of another site. Open the relay's own page. If you have, \
                            start the relay with --host and the name in the address.";
            return Some((StatusCode::FORBIDDEN, sentence.to_owned()));
        }
        // Browsers send an Origin with every request that changes something. Without one, a cookie is not enough.
        let has_cookie_alone = bearer(headers).is_none() && cookies(headers, &self.cookie).next().is_some();
        if !request.method().is_safe() && !has_origin && has_cookie_alone {
            let sentence = "A cookie is not enough without an Origin header. Programs must send Authorization: \
                            Bearer SECRET instead of the cookie.";
            return Some((StatusCode::FORBIDDEN, sentence.to_owned()));
        }
        None
    }

    fn role_by_cookie(&self, headers: &HeaderMap) -> Option<Role> {
        cookies(headers, &self.cookie).find_map(|secret| self.secrets.role_of(secret))
    }
}

/// Refuses requests for unknown host names, and requests from pages of other sites.
pub(crate) async fn guard(State(scopes): State<Arc<Scopes>>, request: Request, next: Next) -> Response {
    match scopes.objection(&request) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

/// Admits callers with at least this role, before reading the body.
pub(crate) async fn authorise(
    State((scopes, least)): State<(Arc<Scopes>, Role)>,
    request: Request,
    next: Next,
) -> Response {
    let Some(role) = scopes.role(request.headers()) else {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], needs(least)).into_response();
    };
    // Roles are declared in ascending order of rights.
    if (role as u8) < least as u8 {
        return (StatusCode::FORBIDDEN, needs(least)).into_response();
    }
    next.run(request).await
}

fn needs(least: Role) -> &'static str {
    match least {
        Role::Student => {
            "This needs the room's key: open the link in the projector's QR code, or type the PIN beside it. A program \
             gets the key from the link, or for the PIN from POST /api/session."
        }
        Role::Projector => "This needs the projector's secret; open the projector link that the relay printed.",
        Role::Teacher => "This needs the teacher's token; open the teacher link that the relay printed.",
    }
}

/// Returns the request's host and port. HTTP/2 sends them in the URI.
pub(crate) fn host(request: &Request) -> Option<&str> {
    match request.uri().authority() {
        Some(authority) => Some(authority.as_str()),
        None => text(request.headers(), header::HOST),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    text(headers, header::AUTHORIZATION)?.strip_prefix("Bearer ")
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

pub(crate) fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let pairs = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    pairs
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter_map(move |(own, value)| (own == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_other_names_are_passed_over() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=1; unmask-80=x;unmask-8080=y".parse().unwrap());
        headers.append(header::COOKIE, "unmask-8080=z; unmask-8080".parse().unwrap());
        assert_eq!(cookies(&headers, "unmask-8080").collect::<Vec<_>>(), ["y", "z"]);
        assert_eq!(cookies(&headers, "unmask").count(), 0);
    }
}
