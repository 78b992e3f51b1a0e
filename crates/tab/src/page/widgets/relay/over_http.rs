//! A relay that this page came from.

use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture};
use gloo_net::{
    eventsource::{self, futures::EventSource},
    http,
};
use js_sys::Uint8Array;
use leptos::prelude::window;
use unmask_wire::channel::{Answer, Request};
use unmask_words::say;
use wasm_bindgen_futures::spawn_local;

use super::{Listening, Relay, State, Tell};
use crate::page::logic::input::socket_address;

pub struct OverHttp;

impl Relay for OverHttp {
    fn ask(&self, Request { path, body }: Request) -> LocalBoxFuture<'static, Result<Answer, String>> {
        async move {
            let sent = match body {
                None => http::Request::get(&path).send().await,
                Some(body) => match http::Request::post(&path).body(Uint8Array::from(body.as_slice())) {
                    Ok(request) => request.send().await,
                    Err(error) => return Err(say::api::unsendable(&error)),
                },
            };
            let answer = sent.map_err(|error| say::api::no_answer(&error))?;
            let body = answer.binary().await.map_err(|error| say::api::no_answer(&error))?;
            Ok(Answer { status: answer.status(), body })
        }
        .boxed_local()
    }

    fn listen(&self, tell: Tell) -> Option<Box<dyn Listening>> {
        let mut source = EventSource::new("/api/events").ok()?;
        let mut messages = source.subscribe("message").ok()?;
        spawn_local(async move {
            while let Some(Ok((_, message))) = messages.next().await {
                if let Some(text) = message.data().as_string() {
                    tell(&text);
                }
            }
        });
        Some(Box::new(source))
    }

    fn socket(&self) -> String {
        let location = window().location();
        socket_address(&location.protocol().unwrap_or_default(), &location.host().unwrap_or_default())
    }
}

impl Listening for EventSource {
    fn state(&self) -> State {
        match EventSource::state(self) {
            eventsource::State::Connecting => State::Opening,
            eventsource::State::Open => State::Open,
            eventsource::State::Closed => State::Closed,
        }
    }
}
