/// The lesson in three sentences, for the class to take home.
pub const DEBRIEF: [&str; 3] = [
    "In federated learning your picture stays on your device, but the numbers that leave can be turned back into it.",
    "A mask that keeps half of the numbers at home stops an attacker who does not know it, but not always one who does.",
    "Safety has a price and a date: ask who attacks, what they know, how long they search, and what it costs the model.",
];
