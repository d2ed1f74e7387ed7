//! `GET /openapi.json`: the OpenAPI 3.1 document of the public interface, written by hand and held to the code by tests.

use axum::response::IntoResponse;
use http::header;

const DOCUMENT: &str = include_str!("../../openapi.json");

pub(super) async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)
}

#[cfg(test)]
mod tests;
