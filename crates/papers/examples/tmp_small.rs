//! Temporary runner.
use std::{env, ops::ControlFlow, path::PathBuf};
use unmask_datasets::default_cifar10_folder;
use unmask_model::device::OpenDevice;
use unmask_papers::{Event, Request, Scale, reproduce, verdict};
fn main() {
    let args: Vec<String> = env::args().collect();
    let device = OpenDevice::cpu();
    for name in args[3].split(',') {
        let request = Request {
            experiment: name.parse().unwrap(),
            scale: Scale::Small,
            seed: 1,
            seeds: args[2].parse().ok().filter(|n| *n > 0),
            out: PathBuf::from(&args[1]),
            cifar10: default_cifar10_folder(),
            weights: args.get(4).map(PathBuf::from),
            device: &device,
            threads: None,
        };
        let done = reproduce(&request, &mut |event| {
            if let Event::Part { name } = event {
                eprintln!("{name}")
            }
            ControlFlow::Continue(())
        });
        match done {
            Ok(Some(done)) => println!("{name}: {}", verdict(&done.claims)),
            other => println!("{name}: {:?}", other.map(|_| ()).map_err(|e| e.to_string())),
        }
    }
}
