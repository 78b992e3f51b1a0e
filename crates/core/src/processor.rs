/// Finds the processor's name in Linux's `/proc/cpuinfo`; `None` if it has none, as on other architectures.
pub fn processor_name(cpuinfo: &str) -> Option<&str> {
    let (_, name) = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'))?;
    Some(name.trim()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_counts() {
        let two = "processor\t: 0\nmodel name\t: AMD EPYC\ncache size\t: 512 KB\n\nmodel name\t: Another\n";
        assert_eq!(processor_name(two), Some("AMD EPYC"));
        assert_eq!(processor_name("processor\t: 0\nmodel name\t:\n"), None);
        assert_eq!(processor_name("BogoMIPS\t: 50.00\n"), None);
    }
}
