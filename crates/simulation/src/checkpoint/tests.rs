use super::*;

fn checkpoint(round: u32) -> Checkpoint {
    let header = Header {
        config: "seed = 1\n".to_owned(),
        pictures: "ab".repeat(32),
        key: String::new(),
        round,
        steps: round,
        counted: round,
        seconds: 1.25,
    };
    let metrics = Metrics {
        round,
        epoch: 0.5,
        loss: Some(2.25),
        rate: 0.1,
        test_accuracy: None,
        test_loss: Some(2.5),
        seconds: 1.0,
    };
    Checkpoint {
        header,
        weights: vec![1.0, -0.0, f32::MIN_POSITIVE, 1e-42],
        statistics: Vec::new(),
        moments: (vec![0.5; 4], vec![0.25; 4]),
        counts: vec![0, 1, 65535],
        metrics: vec![metrics],
    }
}

#[test]
fn what_is_written_is_read_bit_for_bit() {
    let written = checkpoint(7);
    let read = Checkpoint::decode(&written.encode()).unwrap();
    assert_eq!(read, written);
    assert!(read.weights.iter().zip(&written.weights).all(|(a, b)| a.to_bits() == b.to_bits()));
}

#[test]
fn every_cut_and_every_flipped_byte_is_noticed() {
    let bytes = checkpoint(7).encode();
    for end in 0..bytes.len() {
        assert!(Checkpoint::decode(&bytes[..end]).is_err(), "{end}");
    }
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        assert!(Checkpoint::decode(&altered).is_err(), "{at}");
    }
}

#[test]
fn the_last_two_are_kept_and_the_newest_whole_one_is_found() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!exists(folder.path()));
    let none = Checkpoint::newest(folder.path()).unwrap_err().to_string();
    assert!(none.contains("holds no checkpoint to go on from; leave out --resume"), "{none}");
    for round in [9, 10, 100] {
        checkpoint(round).write(folder.path()).unwrap();
    }
    let rounds: Vec<u32> = files(folder.path()).unwrap().into_iter().map(|(round, _)| round).collect();
    assert_eq!(rounds, [100, 10]);
    assert_eq!(Checkpoint::newest(folder.path()).unwrap(), (checkpoint(100), Vec::new()));

    let newest = files(folder.path()).unwrap()[0].1.clone();
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, &bytes[..bytes.len() - 1]).unwrap();
    let (found, problems) = Checkpoint::newest(folder.path()).unwrap();
    assert_eq!((found, problems.len()), (checkpoint(10), 1));
    assert!(problems[0].ends_with("its checksum is wrong, so it was cut off or altered"), "{problems:?}");

    fs::write(&files(folder.path()).unwrap()[1].1, "hello").unwrap();
    let broken = Checkpoint::newest(folder.path()).unwrap_err().to_string();
    assert!(broken.contains("not a checkpoint of this version of unmask; start again"), "{broken}");
}

/// A folder that cannot be created simulates a full disk.
#[test]
fn only_what_can_be_gone_on_with_is_advised() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    fs::write(&taken, "no folder").unwrap();
    let first = checkpoint(7).write(&taken).unwrap_err().to_string();
    assert!(first.contains("nothing to go on from") && first.contains("start again"), "{first}");
    assert!(!first.contains("--resume"), "{first}");

    let kept = folder.path().join("kept");
    checkpoint(6).write(&kept).unwrap();
    fs::create_dir_all(kept.join("round-00000007.ckpt/inside")).unwrap();
    let second = checkpoint(7).write(&kept).unwrap_err();
    assert!(matches!(second, CheckpointError::Write { round: 7, .. }), "{second}");
}
