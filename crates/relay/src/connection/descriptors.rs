//! File descriptors: each connection needs one.

/// Raises this process's limit of open files towards `wanted`, and returns the limit. `None` if there is no limit, or
/// it is unknown.
#[cfg(unix)]
pub(crate) fn available(wanted: usize) -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (current, wanted) = (current?, wanted as u64);
    let raised = maximum.map_or(wanted, |most| most.min(wanted));
    let available = if raised <= current {
        current
    } else {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
            Ok(()) => raised,
            Err(error) => {
                tracing::warn!("the limit of {current} open files cannot be raised to {raised}: {error}");
                current
            }
        }
    };
    Some(usize::try_from(available).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
pub(crate) fn available(_: usize) -> Option<usize> {
    None
}
