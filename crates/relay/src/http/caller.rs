//! The role and origin of a request.

use std::{convert::Infallible, net::SocketAddr};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{HeaderMap, request::Parts},
};
use unmask_room::{DeviceId, Peer};
use unmask_wire::view::Role;

use super::{addresses::is_own_address, app::App, scopes::cookies};

/// The role granted by the request's secret, if it carries one.
pub(crate) struct Caller(pub(crate) Option<Role>);

impl FromRequestParts<App> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        Ok(Self(app.scopes.role(&parts.headers)))
    }
}

impl FromRequestParts<App> for Peer {
    type Rejection = <ConnectInfo<SocketAddr> as FromRequestParts<App>>::Rejection;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let ConnectInfo(socket) = ConnectInfo::<SocketAddr>::from_request_parts(parts, app).await?;
        let address = Some(socket.ip().to_canonical()).filter(|address| !is_own_address(*address));
        Ok(Self { address, device: device(&parts.headers, &app.scopes.cookie) })
    }
}

/// Returns the browser's id from its cookie. `secret` is the name of the cookie that holds the secret.
pub(crate) fn device(headers: &HeaderMap, secret: &str) -> Option<DeviceId> {
    cookies(headers, &cookie_name(secret)).find_map(DeviceId::parse)
}

/// Returns the name of the device cookie, given that of the cookie that holds the secret.
pub(crate) fn cookie_name(secret: &str) -> String {
    format!("{secret}-device")
}
