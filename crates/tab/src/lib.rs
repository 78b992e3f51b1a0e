//! The web app: pages, and the worker that trains.
