//! A bounded cache in front of a slow source: many pages, of which a few are asked for most of the
//! time. Only what misses goes to the source; statistics at the end.

use std::time::Duration;

use slotkeep::{Cache, Error};

const PAGES: u64 = 10_000;
const REQUESTS: usize = 100_000;

/// What is slow in a real program: a database, a disk, another server. This one is not.
fn load(number: u64) -> String {
    format!("the content of page {number}")
}

/// A page, from the cache if it is there.
fn page(cache: &Cache<str>, number: u64) -> Result<String, Error> {
    let key = format!("page:{number}");
    if let Some(page) = cache.get(&key)? {
        return Ok(page.to_string());
    }
    let page = load(number);
    cache.insert(&key, &page)?;
    Ok(page)
}

/// Numbers of pages, small ones far more often than great ones; the same in every run.
fn requests() -> impl Iterator<Item = u64> {
    let mut state = 0x5EED_u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // The eighth power of a number between 0 and 1, of which 16 bits are kept.
        let mut skewed = state >> 48;
        for _ in 0..3 {
            skewed = (skewed * skewed) >> 16;
        }
        (skewed * PAGES) >> 16
    })
}

fn main() -> Result<(), Error> {
    let cache = Cache::builder()
        .capacity(1_000)
        .time_to_live(Duration::from_secs(300))
        .jitter(Duration::from_secs(30))
        .build()?;
    for number in requests().take(REQUESTS) {
        page(&cache, number)?;
    }
    let stats = cache.stats()?;
    println!("{REQUESTS} requests for {PAGES} pages, of which {} fit", stats.entries);
    println!("{} hits, {} misses, {} evicted", stats.hits, stats.misses, stats.evicted);
    println!("hit ratio {:.3}", stats.hit_ratio().unwrap_or_default());
    Ok(())
}
