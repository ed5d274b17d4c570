// SPDX-License-Identifier: Apache-2.0
//
// A Rust program with jemalloc linked in under the prefix of its crate, called as the crate calls it. The
// allocator itself keeps the books: each call of the program passes it. "go" runs one phase of threads that
// fill and empty collections, and answers with one JSON line; neither reading nor answering allocates.
use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

extern "C" {
    fn _rjem_malloc(size: usize) -> *mut c_void;
    fn _rjem_calloc(count: usize, size: usize) -> *mut c_void;
    fn _rjem_realloc(old: *mut c_void, size: usize) -> *mut c_void;
    fn _rjem_mallocx(size: usize, flags: c_int) -> *mut c_void;
    fn _rjem_rallocx(old: *mut c_void, size: usize, flags: c_int) -> *mut c_void;
    fn _rjem_sdallocx(block: *mut c_void, size: usize, flags: c_int);
    fn read(fd: c_int, buffer: *mut c_void, bytes: usize) -> isize;
    fn write(fd: c_int, buffer: *const c_void, bytes: usize) -> isize;
}

const THREADS: usize = 3;
const MALLOC: usize = 0;
const CALLOC: usize = 1;
const REALLOC: usize = 2;
const MALLOCX: usize = 3;
const RALLOCX: usize = 4;
const NAMES: [&str; 5] = ["malloc", "calloc", "realloc", "mallocx", "rallocx"];
const ZERO: c_int = 0x40; // MALLOCX_ZERO

#[allow(clippy::declare_interior_mutable_const)]
const NONE: AtomicU64 = AtomicU64::new(0);
static CALLS: [AtomicU64; 5] = [NONE; 5];
static BYTES: [AtomicU64; 5] = [NONE; 5];
static FREES: AtomicU64 = AtomicU64::new(0);
static FREED_BYTES: AtomicU64 = AtomicU64::new(0);

struct Jemalloc;

// Alignments that jemalloc gives anyway need no flag.
fn alignment_flag(align: usize, size: usize) -> c_int {
    if align <= 16 && align <= size {
        0
    } else {
        align.trailing_zeros() as c_int
    }
}

fn book(function: usize, size: usize, block: *mut c_void) -> *mut u8 {
    CALLS[function].fetch_add(1, Relaxed);
    BYTES[function].fetch_add(size as u64, Relaxed);
    block as *mut u8
}

fn book_gone(size: usize) {
    FREES.fetch_add(1, Relaxed);
    FREED_BYTES.fetch_add(size as u64, Relaxed);
}

unsafe impl GlobalAlloc for Jemalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, flags) = (layout.size(), alignment_flag(layout.align(), layout.size()));
        if flags == 0 {
            book(MALLOC, size, _rjem_malloc(size))
        } else {
            book(MALLOCX, size, _rjem_mallocx(size, flags))
        }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, flags) = (layout.size(), alignment_flag(layout.align(), layout.size()));
        if flags == 0 {
            book(CALLOC, size, _rjem_calloc(1, size))
        } else {
            book(MALLOCX, size, _rjem_mallocx(size, flags | ZERO))
        }
    }
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let flags = alignment_flag(layout.align(), size);
        book_gone(layout.size());
        if flags == 0 {
            book(REALLOC, size, _rjem_realloc(old as *mut c_void, size))
        } else {
            book(RALLOCX, size, _rjem_rallocx(old as *mut c_void, size, flags))
        }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        book_gone(layout.size());
        let flags = alignment_flag(layout.align(), layout.size());
        _rjem_sdallocx(block as *mut c_void, layout.size(), flags)
    }
}

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[repr(align(64))]
struct Line([u8; 64]);

fn fill(seed: u64) -> BTreeMap<String, Vec<u64>> {
    let mut map: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for i in 0..100 {
        let key = format!("key number {}", (seed * 7919 + i * 104729) % 97);
        map.entry(key).or_default().push(i);
    }
    map
}

fn work(seed: u64) {
    for round in seed * 1000..seed * 1000 + 150 {
        let map = fill(round);
        let index: HashMap<u64, &str> =
            map.iter().flat_map(|(key, values)| values.iter().map(move |v| (*v, key.as_str()))).collect();
        assert_eq!(index.len(), 100);
        let lines: Vec<Box<Line>> = (0..20).map(|i| Box::new(Line([i; 64]))).collect();
        assert_eq!(lines.iter().map(|line| line.0[63] as u64).sum::<u64>(), 190);
        let zeros = vec![0u8; 1000 + round as usize % 5000];
        assert_eq!(zeros.iter().map(|byte| *byte as u64).sum::<u64>(), 0);
        let mut grown: Vec<Line> = Vec::new();
        grown.extend((0..5).map(|i| Line([i; 64])));
        grown.push(Line([9; 64]));
        assert_eq!(grown[5].0[0], 9);
        if round % 10 == 0 {
            Box::leak(format!("stays from round {}", round).into_boxed_str());
        }
    }
}

fn run(seed: u64, line: &[Barrier; 2]) {
    loop {
        line[0].wait();
        work(seed);
        line[1].wait();
    }
}

struct Answer {
    text: [u8; 2000],
    used: usize,
}

impl Write for Answer {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        self.text[self.used..self.used + more.len()].copy_from_slice(more.as_bytes());
        self.used += more.len();
        Ok(())
    }
}

impl Answer {
    fn new() -> Answer {
        Answer { text: [0; 2000], used: 0 }
    }
    fn send(&mut self) {
        self.write_str("\n").unwrap();
        let sent = unsafe { write(1, self.text.as_ptr() as *const c_void, self.used) };
        assert_eq!(sent, self.used as isize);
    }
}

fn say_books(answer: &mut Answer) {
    let sum = |of: &[AtomicU64; 5]| of.iter().map(|n| n.load(Relaxed)).sum::<u64>();
    let (calls, bytes) = (sum(&CALLS), sum(&BYTES));
    let (frees, freed) = (FREES.load(Relaxed), FREED_BYTES.load(Relaxed));
    answer.write_str("{\"functions\":{").unwrap();
    for (i, name) in NAMES.iter().enumerate() {
        let (calls, bytes) = (CALLS[i].load(Relaxed), BYTES[i].load(Relaxed));
        let comma = if i == 0 { "" } else { "," };
        write!(answer, "{}\"{}\":{{\"calls\":{},\"bytes\":{}}}", comma, name, calls, bytes).unwrap();
    }
    write!(answer, "}},\"allocations\":{},\"allocated_bytes\":{}", calls, bytes).unwrap();
    write!(answer, ",\"frees\":{},\"freed_bytes\":{}", frees, freed).unwrap();
    write!(answer, ",\"before_frees\":0,\"before_freed_bytes\":0").unwrap();
    write!(answer, ",\"outstanding_blocks\":{}", calls - frees).unwrap();
    write!(answer, ",\"outstanding_bytes\":{},\"threads\":[]}}", bytes - freed).unwrap();
}

fn run_phase(line: &[Barrier; 2]) {
    for i in 0..NAMES.len() {
        CALLS[i].store(0, Relaxed);
        BYTES[i].store(0, Relaxed);
    }
    FREES.store(0, Relaxed);
    FREED_BYTES.store(0, Relaxed);
    line[0].wait();
    line[1].wait();
}

fn hear(line: &mut [u8; 64]) -> &str {
    let mut used = 0;
    while unsafe { read(0, line[used..].as_mut_ptr() as *mut c_void, 1) } == 1 && line[used] != b'\n' {
        used += 1;
    }
    std::str::from_utf8(&line[..used]).unwrap()
}

fn main() {
    // The threads never end, because the C library allocates when a thread begins or ends.
    let line = Arc::new([Barrier::new(THREADS + 1), Barrier::new(THREADS + 1)]);
    for seed in 0..THREADS {
        let line = line.clone();
        thread::spawn(move || run(seed as u64, &line));
    }
    let mut answer = Answer::new();
    write!(answer, "ready {}", std::process::id()).unwrap();
    answer.send();
    loop {
        let mut command = [0; 64];
        let mut answer = Answer::new();
        match hear(&mut command) {
            "go" => {
                run_phase(&line);
                say_books(&mut answer);
            }
            "ping" => answer.write_str("pong").unwrap(),
            _ => return,
        }
        answer.send();
    }
}
