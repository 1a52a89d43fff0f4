//! The description of the API (OpenAPI 3.1), and the test that keeps it true.
//!
//! It is a file, kept by hand, since its sentences are for people; the tests serialize a sample of every body and compare
//! its fields with the description's, and the list of routes with its paths, both ways.

use axum::response::Response;
use hyper::StatusCode;

use super::answer::with_body;

const DESCRIPTION: &str = include_str!("openapi.json");

pub(super) async fn describe() -> Response {
    with_body(StatusCode::OK, DESCRIPTION.into())
}

#[cfg(test)]
mod tests;
