//! Batches taken apart.

mod assignment;
mod block;
#[cfg(test)]
mod cases;
mod mlp;
mod parallel;
mod tokens;
