//! Division of the pictures among clients.

use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma};
use unmask_core::Partition;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PartitionError {
    #[error(
        "dirichlet:{0} divides nothing; alpha must be from {min} to {max}", min = Partition::MIN_ALPHA,
        max = Partition::MAX_ALPHA
    )]
    Alpha(f64),
    #[error("0 clients were asked to share the pictures; at least 1 is needed")]
    NoClients,
    #[error(
        "{pictures} pictures are too few for {clients} clients, each of which needs at least one; at most {pictures} can \
         share them"
    )]
    TooFew { pictures: usize, clients: usize },
}

/// Returns the picture indices of each client, ascending. Each picture goes to exactly one client, and each client gets
/// at least one picture. The same seed gives the same shards.
///
/// # Errors
/// [`PartitionError`]: no clients, fewer pictures than clients, or an alpha out of range.
pub fn divide(
    partition: Partition,
    labels: &[u8],
    clients: usize,
    seed: u64,
) -> Result<Vec<Vec<usize>>, PartitionError> {
    if clients == 0 {
        return Err(PartitionError::NoClients);
    }
    if labels.len() < clients {
        return Err(PartitionError::TooFew { pictures: labels.len(), clients });
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut shards = match partition {
        Partition::Iid => deal(labels.len(), clients, &mut rng),
        Partition::Dirichlet { alpha } => by_class(labels, clients, alpha, &mut rng)?,
    };
    feed_the_poor(&mut shards);
    shards.iter_mut().for_each(|shard| shard.sort_unstable());
    Ok(shards)
}

fn deal(pictures: usize, clients: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..pictures).collect();
    order.shuffle(rng);
    (0..clients).map(|client| order.iter().skip(client).step_by(clients).copied().collect()).collect()
}

fn by_class(
    labels: &[u8],
    clients: usize,
    alpha: f64,
    rng: &mut ChaCha8Rng,
) -> Result<Vec<Vec<usize>>, PartitionError> {
    let mut classes = vec![Vec::new(); usize::from(u8::MAX) + 1];
    for (index, &label) in labels.iter().enumerate() {
        classes[usize::from(label)].push(index);
    }
    let mut shards = vec![Vec::new(); clients];
    for mut members in classes.into_iter().filter(|members| !members.is_empty()) {
        members.shuffle(rng);
        let mut start = 0;
        let mut reached = 0.0;
        for (shard, share) in shards.iter_mut().zip(dirichlet(clients, alpha, rng)?) {
            reached += share;
            let end = ((reached * members.len() as f64).round() as usize).clamp(start, members.len());
            shard.extend_from_slice(&members[start..end]);
            start = end;
        }
        // Rounding may leave the shares' sum below 1.
        if let Some(last) = shards.last_mut() {
            last.extend_from_slice(&members[start..]);
        }
    }
    Ok(shards)
}

/// Shares drawn from Dirichlet(alpha, ..., alpha): Gamma(alpha, 1) draws divided by their sum.
///
/// With a small alpha all draws would round to zero, so this works with their logarithms: a Gamma(alpha) draw is a
/// Gamma(alpha + 1) draw times U^(1/alpha), and all are scaled by the largest before exponentiation.
fn dirichlet(clients: usize, alpha: f64, rng: &mut ChaCha8Rng) -> Result<Vec<f64>, PartitionError> {
    if !(Partition::MIN_ALPHA..=Partition::MAX_ALPHA).contains(&alpha) {
        return Err(PartitionError::Alpha(alpha));
    }
    let gamma = Gamma::new(alpha + 1.0, 1.0).map_err(|_| PartitionError::Alpha(alpha))?;
    let logarithms: Vec<f64> = (0..clients)
        .map(|_| {
            let uniform = 1.0 - rng.random::<f64>();
            gamma.sample(rng).ln() + uniform.ln() / alpha
        })
        .collect();
    let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let draws: Vec<f64> = logarithms.iter().map(|logarithm| (logarithm - largest).exp()).collect();
    let sum: f64 = draws.iter().sum();
    Ok(draws.iter().map(|draw| draw / sum).collect())
}

/// Gives each client without pictures one from the largest shard, because an empty client could not take part.
fn feed_the_poor(shards: &mut [Vec<usize>]) {
    while let Some(poor) = shards.iter().position(Vec::is_empty) {
        let richest = (0..shards.len()).max_by_key(|&client| shards[client].len()).unwrap_or(poor);
        let Some(picture) = shards[richest].pop() else { return };
        shards[poor].push(picture);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pictures: usize) -> Vec<u8> {
        (0..pictures).map(|index| (index % 10) as u8).collect()
    }

    proptest! {
        #[test]
        fn every_picture_has_one_holder(
            pictures in 1usize..300, clients in 1usize..20, alpha in 1e-6f64..100.0, seed: u64
        ) {
            let labels = labels(pictures);
            for partition in [Partition::Iid, Partition::Dirichlet { alpha }] {
                match divide(partition, &labels, clients, seed) {
                    Ok(shards) => {
                        prop_assert!(shards.iter().all(|shard| !shard.is_empty() && shard.is_sorted()));
                        let mut all = shards.concat();
                        all.sort_unstable();
                        prop_assert_eq!(all, (0..pictures).collect::<Vec<_>>());
                        prop_assert_eq!(divide(partition, &labels, clients, seed).unwrap(), shards);
                    }
                    Err(error) => {
                        prop_assert!(pictures < clients);
                        prop_assert_eq!(error, PartitionError::TooFew { pictures, clients });
                    }
                }
            }
        }
    }

    /// The share of a client's most frequent class, averaged over clients.
    fn skew(partition: Partition) -> f64 {
        let labels = labels(5000);
        let shards = divide(partition, &labels, 10, 3).unwrap();
        let commonest = |shard: &Vec<usize>| {
            let most = (0..10).map(|class| shard.iter().filter(|&&index| labels[index] == class).count()).max();
            most.unwrap() as f64 / shard.len() as f64
        };
        shards.iter().map(commonest).sum::<f64>() / 10.0
    }

    #[test]
    fn small_alpha_skews_and_large_alpha_does_not() {
        let (iid, even, skewed) = (
            skew(Partition::Iid),
            skew(Partition::Dirichlet { alpha: 1000.0 }),
            skew(Partition::Dirichlet { alpha: 0.1 }),
        );
        assert!(iid < 0.15 && even < 0.15 && skewed > 0.4, "{iid} {even} {skewed}");
        let shards = divide(Partition::Iid, &labels(103), 10, 1).unwrap();
        assert!(shards.iter().all(|shard| (10..=11).contains(&shard.len())));
    }

    #[test]
    fn what_cannot_be_divided_is_named() {
        assert_eq!(divide(Partition::Iid, &[1, 2], 0, 1), Err(PartitionError::NoClients));
        for alpha in [0.0, -0.5, f64::NAN, f64::INFINITY] {
            let error = divide(Partition::Dirichlet { alpha }, &[1, 2], 2, 1).unwrap_err().to_string();
            assert!(error.contains("alpha must be from 0.000001 to 1000000"), "{error}");
        }
    }

    /// A client's share has mean 1 / n and variance (n - 1) / (n^2 (n alpha + 1)) for n clients.
    #[test]
    fn shares_have_dirichlets_moments() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for alpha in [0.01, 0.5, 10.0] {
            let draws: Vec<f64> = (0..20_000).map(|_| dirichlet(4, alpha, &mut rng).unwrap()[0]).collect();
            let mean = draws.iter().sum::<f64>() / 20_000.0;
            let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 20_000.0;
            let expected = 3.0 / (16.0 * (4.0 * alpha + 1.0));
            assert!((mean - 0.25).abs() < 0.012 && (variance / expected - 1.0).abs() < 0.06, "{mean} {variance}");
        }
        let one = dirichlet(1000, Partition::MIN_ALPHA, &mut rng).unwrap();
        assert_eq!(one.iter().filter(|share| **share > 0.999).count(), 1);
    }
}
