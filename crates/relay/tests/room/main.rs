//! Tests of a room behind real sockets. They form one program, since each binary costs a minute to link and 100 MB.
//! Tests that measure a whole process are outside this folder.

#[path = "../support/mod.rs"]
mod support;

mod attacks;
mod candidate;
mod contest;
mod controls;
mod defences;
mod encryption;
mod erasing;
mod evaluation;
mod hostile;
mod journal;
mod keys;
mod lesson;
mod limits;
mod moderation;
mod passphrase;
mod people;
mod pretrained;
mod recording;
mod resnet;
mod rounds;
mod scopes;
mod search;
mod shadow;
mod sharing;
mod web;
