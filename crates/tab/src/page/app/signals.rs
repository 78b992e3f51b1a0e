//! Parts of what may not be there yet, for views.

use leptos::prelude::*;

/// A part of `whole`.
pub fn part<S, T, U>(
    whole: S,
    of: impl Fn(&T) -> U + Copy + Send + Sync + 'static,
) -> impl Fn() -> Option<U> + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
    U: 'static,
{
    move || whole.with(|whole| whole.as_ref().map(of))
}

/// A part of `whole` that it may lack.
pub fn optional<S, T, U>(
    whole: S,
    of: impl Fn(&T) -> Option<U> + Copy + Send + Sync + 'static,
) -> impl Fn() -> Option<U> + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
    U: 'static,
{
    move || whole.with(|whole| whole.as_ref().and_then(of))
}

/// Whether `whole` is there and `is` holds of it.
pub fn holds<S, T>(
    whole: S,
    is: impl Fn(&T) -> bool + Copy + Send + Sync + 'static,
) -> impl Fn() -> bool + Copy + Send + Sync + 'static
where
    S: With<Value = Option<T>> + Copy + Send + Sync + 'static,
    T: 'static,
{
    move || whole.with(|whole| whole.as_ref().is_some_and(is))
}
