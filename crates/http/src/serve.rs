//! Serves the pages to whoever comes, for as long as it may take.

use crate::health::{self, Health};
use crate::metrics;
use crate::observed::Observed;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metaq_listen::{Accepted, Listener};
use serde_json::json;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// What a client may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most that a client may send along with a request, in bytes.
    pub body_bytes_max: usize,
    /// How long a client may take to say what it wants, from its connection's start or its last answer on.
    pub head_max: Duration,
    /// How long a connection may live, whatever happens on it.
    pub connection_max: Duration,
}

impl Limits {
    /// 4 KiB, 10 s, 10 min.
    pub const DEFAULT: Limits =
        Limits { body_bytes_max: 4 << 10, head_max: Duration::from_secs(10), connection_max: Duration::from_secs(600) };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

/// Serves until `stop` is done, and then what was begun. How many may be connected is the listener's business.
pub async fn serve(listener: Listener, observed: Arc<Observed>, limits: Limits, stop: impl Future<Output = ()>) {
    let router = router(observed, limits);
    let (ended, _) = watch::channel(());
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => {
                tokio::spawn(connection(accepted, router.clone(), limits, ended.subscribe()));
            }
        }
    }
    drop(listener);
    let _: Result<(), watch::error::SendError<()>> = ended.send(());
    ended.closed().await;
}

/// Serves one connection until it ends, its time is over, or `ended` says that it should.
async fn connection(accepted: Accepted, router: Router, limits: Limits, mut ended: watch::Receiver<()>) {
    let Accepted { stream, identity, place } = accepted;
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%identity, %error, "a connection can't be set up");
            return;
        }
    };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_max)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    let until = tokio::time::sleep(limits.connection_max);
    let ending = async {
        tokio::select! {
            () = until => {}
            // An error is the end of the sender, which is an end too.
            _ = ended.changed() => {}
        }
    };
    let result = tokio::select! {
        result = &mut served => result,
        () = ending => {
            served.as_mut().graceful_shutdown();
            match tokio::time::timeout(limits.head_max, served).await {
                Ok(result) => result,
                Err(_) => Ok(()),
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%identity, %error, "a connection ended");
    }
    drop(place);
}

fn router(observed: Arc<Observed>, limits: Limits) -> Router {
    Router::new()
        .route("/metrics", get(metrics_page))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(limits.body_bytes_max))
        .with_state(observed)
}

async fn metrics_page(State(observed): State<Arc<Observed>>) -> Response {
    match metrics::text(&observed) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics can't be written");
            error_page(StatusCode::INTERNAL_SERVER_ERROR, "metrics can't be written; please report it")
        }
    }
}

async fn live(State(observed): State<Arc<Observed>>) -> Response {
    match health::dead(&observed) {
        None => Json(json!({ "live": true })).into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "live": false, "reason": why }))).into_response(),
    }
}

async fn ready(State(observed): State<Arc<Observed>>) -> Response {
    let health = Health::of(&observed);
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health)).into_response()
}

async fn not_found(uri: Uri) -> Response {
    let text = format!("there is no {}; there are /metrics, /health/live and /health/ready", uri.path());
    error_page(StatusCode::NOT_FOUND, &text)
}

fn error_page(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({ "error": text }))).into_response()
}
