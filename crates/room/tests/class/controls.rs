//! The client under attack.

use crate::support::{Class, state};
use unmask_wire::view::{ClientState, Control};

/// The first client to join is the target. If it leaves, another present client is.
#[test]
fn target_is_always_somebody_present() {
    let class = Class::start();
    assert_eq!(class.room().target, None);
    let (ada, bob, eve) = (class.client("Ada"), class.client("Bob"), class.client("Eve"));
    assert_eq!(class.room().target, Some(ada.id));
    class.control(Control::Target { client: eve.id });
    assert_eq!(class.room().target, Some(eve.id));
    let gone = eve.id;
    drop(eve);
    class.room_when("another target", |room| room.target == Some(ada.id));
    let sentence = class.refusal_of(&Control::Target { client: gone });
    assert!(sentence.contains("Eve"), "{sentence}");
    drop((ada, bob));
    let room = class.room_when("no target", |room| room.target.is_none());
    assert_eq!(state(&room, "Ada"), Some(ClientState::Gone));
    let zoe = class.client("Zoe");
    assert_eq!(class.room().target, Some(zoe.id));
}
