// SPDX-License-Identifier: Apache-2.0
//
// An ordinary Rust program: threads that fill and empty collections, with a breath between the rounds.
// "count" answers with the rounds so far.
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

static ROUNDS: AtomicU64 = AtomicU64::new(0);
static STOPPING: AtomicBool = AtomicBool::new(false);

fn fill(seed: u64) -> BTreeMap<String, Vec<u64>> {
    let mut map: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for i in 0..100 {
        let key = format!("key number {}", (seed * 7919 + i * 104729) % 97);
        map.entry(key).or_default().push(i);
    }
    map
}

fn run() {
    let mut seed = 0;
    while !STOPPING.load(Ordering::Relaxed) {
        let map = fill(seed);
        let index: HashMap<u64, &str> = map
            .iter()
            .flat_map(|(key, values)| values.iter().map(move |v| (*v, key.as_str())))
            .collect();
        assert_eq!(index.len(), 100);
        let boxed: Vec<Box<[u64]>> = map.values().map(|v| v.clone().into_boxed_slice()).collect();
        assert_eq!(boxed.iter().map(|b| b.len()).sum::<usize>(), 100);
        seed += 1;
        ROUNDS.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_micros(500));
    }
}

fn say(text: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", text).unwrap();
    out.flush().unwrap();
}

fn main() {
    let threads: Vec<_> = (0..3).map(|_| thread::spawn(run)).collect();
    say(&format!("ready {}", std::process::id()));
    for line in io::stdin().lock().lines() {
        match line.unwrap().as_str() {
            "stop" => break,
            "ping" => say("pong"),
            _ => say(&ROUNDS.load(Ordering::Relaxed).to_string()),
        }
    }
    STOPPING.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
}
