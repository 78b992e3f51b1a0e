//! A class in simulated time, with the real attacks: what a room promises to its people. Sockets, threads and files have
//! tests of their own in `relay/tests/room`.

mod support;

mod attacks;
mod budget;
mod candidate;
mod checks;
mod choices;
mod consent;
mod contest;
mod controls;
mod defences;
mod encryption;
mod gathering;
mod hostile;
mod kept;
mod lesson;
mod moderation;
mod people;
mod rounds;
mod rules;
mod search;
mod silence;
mod summing;
