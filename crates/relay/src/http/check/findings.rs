//! What follows from a look at the network, in words.

use unmask_wire::view::{NetworkFinding, Verdict};

use super::look::{Firewall, Inside, Look, Place, Ports};

fn finding(subject: &str, (verdict, text): (Verdict, String)) -> NetworkFinding {
    NetworkFinding { subject: subject.to_owned(), verdict, text }
}

/// All findings, in the order of a phone's way to the room.
pub(super) fn findings(look: &Look) -> Vec<NetworkFinding> {
    vec![
        finding("address", address(look)),
        finding("isolation", isolation(look)),
        finding("firewall", firewall(look)),
        finding("ports", ports(look)),
        finding("certificate", certificate(look)),
    ]
}

fn address(look: &Look) -> (Verdict, String) {
    let Place { bind, hosts, .. } = &look.place;
    if bind.is_loopback() {
        let text = format!("The relay listens on {bind}, which only this machine reaches. Leave --bind out.");
        return (Verdict::Problem, text);
    }
    if let Some((host, found)) = &look.host {
        return match found {
            Ok(_) if look.host_is_own => (Verdict::Good, format!("{host} (from --host) leads to this machine.")),
            Ok(found) => {
                let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                let text = format!(
                    "{host} (from --host) leads to {}, which is not an address of this machine. This is right behind a \
                     router or in a container that passes the ports on; otherwise give --host another name.",
                    found.join(" and ")
                );
                (Verdict::Unknown, text)
            }
            Err(error) => {
                let text = format!(
                    "{host} (from --host) leads nowhere for this machine ({error}). Give --host an address of this \
                     machine, or have the network's administrator enter the name."
                );
                (Verdict::Problem, text)
            }
        };
    }
    match (look.inside, hosts.as_slice()) {
        (Inside::Container, _) => (
            Verdict::Unknown,
            "This program runs in a container, and cannot tell whether that shares the network of its machine. If it \
             does not, publish both ports, and give --host the address of the machine."
                .to_owned(),
        ),
        (Inside::Wsl, _) => (
            Verdict::Problem,
            "This program runs in WSL, whose addresses only this Windows reaches. Write networkingMode=mirrored below \
             [wsl2] in .wslconfig, restart WSL, and allow both ports in the firewall of Windows."
                .to_owned(),
        ),
        (Inside::Machine, [] | [_]) if hosts.iter().all(|host| host == "localhost") => (
            Verdict::Problem,
            "This machine has no address in a network. Join the class's network, or open a hotspot here.".to_owned(),
        ),
        (Inside::Machine, [only]) => (Verdict::Good, format!("This machine has one address, {only}.")),
        (Inside::Machine, [first, others @ ..]) => {
            let text = format!(
                "This machine has {} addresses, and it cannot tell in which network the phones are. The QR code has \
                 {first}. If a phone cannot open that, start with --host and another one: {}.",
                1 + others.len(),
                others.join(", ")
            );
            (Verdict::Unknown, text)
        }
        (Inside::Machine, []) => (Verdict::Unknown, "The addresses of this machine cannot be listed.".to_owned()),
    }
}

fn isolation(_: &Look) -> (Verdict, String) {
    let text = "Many guest networks keep their devices apart. Only another device in the network meets this: open the \
                page with a phone, with mobile data off. If it does not load although the firewall is open, use a \
                phone's hotspot, or ask the administrator to allow traffic between clients (\"AP isolation\" off).";
    (Verdict::Unknown, text.to_owned())
}

fn firewall(look: &Look) -> (Verdict, String) {
    let [http, https] = look.place.ports;
    match look.firewall {
        Firewall::Ufw => {
            let text = format!(
                "ufw runs here, and only root can read whether it lets the ports through. If a phone cannot open the \
                 page: sudo ufw allow {https}/tcp && sudo ufw allow {http}/tcp"
            );
            (Verdict::Unknown, text)
        }
        Firewall::Firewalld => {
            let text = format!(
                "firewalld runs here, and closes most ports by default. If a phone cannot open the page: sudo \
                 firewall-cmd --add-port={https}/tcp --add-port={http}/tcp"
            );
            (Verdict::Unknown, text)
        }
        Firewall::Unseen => {
            let text = "No firewall program is seen here, but only root can read the kernel's rules, and a network may \
                        have its own. A phone that opens the page shows that both let it through.";
            (Verdict::Unknown, text.to_owned())
        }
    }
}

fn ports(look: &Look) -> (Verdict, String) {
    let [http, https] = look.place.ports;
    match &look.ports {
        Ports::Served => (Verdict::Good, format!("The relay listens on the ports {http} and {https}.")),
        Ports::Free => (Verdict::Good, format!("The ports {http} and {https} are free.")),
        Ports::Taken(problems) => (Verdict::Problem, format!("{}. Does a relay run already?", problems.join("; "))),
    }
}

fn certificate(look: &Look) -> (Verdict, String) {
    let host = look.place.hosts.first().map_or("localhost", String::as_str);
    match look.place.is_covered {
        None => {
            let text = format!(
                "The relay's own certificate is used: each browser warns once (Advanced, Continue). A managed device may \
                 forbid to continue; then use the http: address, or give --cert and --key. SHA-256 {}",
                look.place.fingerprint
            );
            (Verdict::Good, text)
        }
        Some(true) => {
            let text = format!(
                "The certificate is for {host}, but whether phones trust who signed it, and its dates, this machine \
                 cannot tell: open the https: page with a phone. It must not warn."
            );
            (Verdict::Unknown, text)
        }
        Some(false) => {
            let text = format!("The certificate is not for {host}. Give --host the name that it is for.");
            (Verdict::Problem, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            bind: [0, 0, 0, 0].into(),
            host: None,
            hosts: vec!["192.0.2.7".to_owned()],
            ports: [8080, 8443],
            is_covered: None,
            fingerprint: "AB:CD".to_owned(),
        }
    }

    fn look() -> Look {
        at(place())
    }

    fn at(place: Place) -> Look {
        let (firewall, inside) = (Firewall::Unseen, Inside::Machine);
        Look { place, host: None, host_is_own: false, ports: Ports::Free, firewall, inside }
    }

    fn found(look: &Look, subject: &str) -> (Verdict, String) {
        let all = findings(look);
        let one = all.into_iter().find(|finding| finding.subject == subject).unwrap();
        (one.verdict, one.text)
    }

    /// Whether it is found with these words.
    fn says(look: &Look, subject: &str, verdict: Verdict, words: &[&str]) {
        let (found, text) = found(look, subject);
        assert!(found == verdict && words.iter().all(|word| text.contains(word)), "{found:?}: {text}");
    }

    #[test]
    fn addresses_are_counted() {
        says(&look(), "address", Verdict::Good, &["one address, 192.0.2.7"]);
        let hosts = ["192.0.2.7", "10.0.0.2", "172.17.0.1"].map(str::to_owned).into();
        let several = at(Place { hosts, ..place() });
        says(&several, "address", Verdict::Unknown, &["3 addresses", "--host", "10.0.0.2, 172.17.0.1"]);
        let none = at(Place { hosts: vec!["localhost".to_owned()], ..place() });
        says(&none, "address", Verdict::Problem, &["no address", "hotspot"]);
        let closed = at(Place { bind: [127, 0, 0, 1].into(), hosts: vec!["localhost".to_owned()], ..place() });
        says(&closed, "address", Verdict::Problem, &["127.0.0.1", "--bind"]);
    }

    #[test]
    fn addresses_inside_another_machine_are_not_the_students() {
        says(&Look { inside: Inside::Container, ..look() }, "address", Verdict::Unknown, &["container", "--host"]);
        says(&Look { inside: Inside::Wsl, ..look() }, "address", Verdict::Problem, &["WSL", "networkingMode=mirrored"]);
        let host = Some(("classroom.test".to_owned(), Ok(vec![[192, 0, 2, 7].into()])));
        let named = Look { inside: Inside::Container, host_is_own: true, host, ..look() };
        says(&named, "address", Verdict::Good, &["classroom.test", "leads to this machine"]);
        says(&Look { host_is_own: false, ..named.clone() }, "address", Verdict::Unknown, &["192.0.2.7", "--host"]);
        let host = Some(("classroom.test".to_owned(), Err("no such name".to_owned())));
        says(&Look { host, ..named }, "address", Verdict::Problem, &["leads nowhere", "no such name"]);
    }

    #[test]
    fn what_only_a_phone_can_tell_is_said_to_be_unknown() {
        says(&look(), "isolation", Verdict::Unknown, &["with a phone", "hotspot", "AP isolation"]);
        says(&look(), "firewall", Verdict::Unknown, &["only root can read", "A phone"]);
        let ufw = Look { firewall: Firewall::Ufw, ..look() };
        says(&ufw, "firewall", Verdict::Unknown, &["sudo ufw allow 8443/tcp", "8080/tcp"]);
        let firewalld = Look { firewall: Firewall::Firewalld, ..look() };
        says(&firewalld, "firewall", Verdict::Unknown, &["firewall-cmd --add-port=8443/tcp --add-port=8080/tcp"]);
    }

    #[test]
    fn taken_ports_and_certificates_for_other_names_are_problems() {
        says(&look(), "ports", Verdict::Good, &["8080 and 8443"]);
        says(&Look { ports: Ports::Served, ..look() }, "ports", Verdict::Good, &["listens on the ports 8080 and 8443"]);
        let ports = Ports::Taken(vec!["port 8080 is in use; choose another with --http-port".to_owned()]);
        says(&Look { ports, ..look() }, "ports", Verdict::Problem, &["--http-port", "run already"]);
        says(&look(), "certificate", Verdict::Good, &["warns once", "AB:CD", "--cert"]);
        says(&at(Place { is_covered: Some(true), ..place() }), "certificate", Verdict::Unknown, &["must not warn"]);
        says(
            &at(Place { is_covered: Some(false), ..place() }),
            "certificate",
            Verdict::Problem,
            &["not for 192.0.2.7"],
        );
    }
}
