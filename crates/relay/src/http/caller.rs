//! Who sends a request, and from where.

use std::{convert::Infallible, net::SocketAddr};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{HeaderMap, request::Parts},
};
use unmask_wire::view::Role;

use super::{addresses::is_own_address, app::App, scopes::cookies};
use crate::peer::{DeviceId, Peer};

/// The role that the request's secret gives, if it carries one.
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

/// The browser that sends these headers. `secret` is the name of the cookie with the secret, beside which it is kept.
pub(crate) fn device(headers: &HeaderMap, secret: &str) -> Option<DeviceId> {
    cookies(headers, &cookie_name(secret)).find_map(DeviceId::parse)
}

/// Name of the device's cookie beside the one that holds the secret.
pub(crate) fn cookie_name(secret: &str) -> String {
    format!("{secret}-device")
}
