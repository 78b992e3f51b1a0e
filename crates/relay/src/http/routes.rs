//! The relay's routes, with the role each requires and its handler.

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{StatusCode, header, uri::Authority},
    middleware::{from_fn_with_state, map_response},
    response::{IntoResponse, Response},
    routing::{MethodRouter, any, get, post},
};
use tower_http::{
    compression::{
        CompressionLayer,
        predicate::{DefaultPredicate, NotForContentType, Predicate},
    },
    timeout::RequestBodyDeadlineLayer,
};
use unmask_wire::view::Role;

use super::{
    app::App,
    candidate, check, control, download, erasing,
    headers::secured,
    page,
    recording::{self, FORM},
    room,
    scopes::{authorise, guard, host},
    session,
};

#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub method: &'static str,
    /// In axum's syntax: `{name}` matches one segment, `{*name}` all remaining ones.
    pub path: &'static str,
    /// The lowest role with access; absent if the route is public.
    pub role: Option<Role>,
    answer: fn() -> MethodRouter<App>,
}

const fn route(
    method: &'static str,
    path: &'static str,
    role: Option<Role>,
    answer: fn() -> MethodRouter<App>,
) -> Route {
    Route { method, path, role, answer }
}

/// All routes. The router contains no others.
static ROUTES: &[Route] = &[
    route("GET", "/healthz", None, || get(healthz)),
    route("GET", "/api/session", None, || get(session::show)),
    route("POST", "/api/session", None, || post(session::open).layer(DefaultBodyLimit::max(session::MAX_BODY))),
    route("GET", "/api/room", None, || get(room::room)),
    // Over HTTP/2 a WebSocket begins with CONNECT instead of GET.
    route("GET", "/ws", Some(Role::Student), || any(room::connect)),
    route("GET", "/api/events", Some(Role::Projector), || get(room::events)),
    route("GET", "/api/reconstruction/{attack}/{picture}", Some(Role::Projector), || get(room::picture)),
    route("GET", "/api/candidate/{picture}", Some(Role::Projector), || get(room::picture)),
    route("GET", "/api/original/{picture}", Some(Role::Projector), || get(room::picture)),
    route("POST", "/api/control", Some(Role::Teacher), || {
        post(control::control).layer(DefaultBodyLimit::max(control::MAX_BODY))
    }),
    route("POST", "/api/candidate", Some(Role::Teacher), || {
        post(candidate::candidate).layer(DefaultBodyLimit::max(candidate::MAX_FILE))
    }),
    route("POST", "/api/erase", Some(Role::Teacher), || {
        post(erasing::erase).layer(DefaultBodyLimit::max(erasing::MAX_BODY))
    }),
    route("GET", "/api/network", Some(Role::Teacher), || get(check::show)),
    route("GET", "/api/session.zip", Some(Role::Teacher), || get(download::download)),
    route("GET", "/api/lesson.unmask", Some(Role::Teacher), || get(recording::recording)),
    route("GET", "/", None, || get(page::serve)),
    route("GET", "/{*file}", None, || get(page::serve)),
];

pub fn routes() -> &'static [Route] {
    ROUTES
}

pub(crate) fn router(app: App) -> Router {
    let (scopes, body) = (Arc::clone(&app.scopes), app.limits.body);
    let mut router = Router::new();
    for route in ROUTES {
        let answer = (route.answer)();
        let answer = match route.role {
            Some(role) => answer.layer(from_fn_with_state((Arc::clone(&scopes), role), authorise)),
            None => answer,
        };
        router = router.route(route.path, answer);
    }
    router
        // Archives and recordings are already compressed.
        .layer(
            CompressionLayer::new().compress_when(
                DefaultPredicate::new()
                    .and(NotForContentType::const_new("application/zip"))
                    .and(NotForContentType::const_new(FORM)),
            ),
        )
        .layer(RequestBodyDeadlineLayer::new(body))
        .layer(from_fn_with_state(scopes, guard))
        .layer(map_response(secured))
        .with_state(app)
}

/// Returns the HTTP port's router if the room is served over HTTPS only: it redirects to the same address there.
pub(crate) fn redirects(app: App) -> Router {
    let scopes = Arc::clone(&app.scopes);
    Router::new()
        .route("/healthz", get(healthz))
        .fallback(redirect)
        .layer(from_fn_with_state(scopes, guard))
        .layer(map_response(secured))
        .with_state(app)
}

async fn healthz() -> &'static str {
    "ok"
}

async fn redirect(State(app): State<App>, request: Request) -> Response {
    let asked = host(&request).and_then(|host| host.parse::<Authority>().ok());
    // The guard admits only requests with a valid host.
    let Some(asked) = asked else { return StatusCode::MISDIRECTED_REQUEST.into_response() };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let address = format!("https://{}:{}{path}", asked.host(), app.https_port);
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, address)]).into_response()
}
